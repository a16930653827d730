"""Blocks of another scale: engines answer wrongly, no counter shows it, and the canary finds it.

Each block gets the numbers that an engine with another scale of its cache (`k_scale`, `v_scale`)
would have stored, sixteen times as large: in vLLM's files with the checksum that it would have
written, in SGLang's files, and in the memory of a Mooncake store. This model with random weights is
moved by such blocks; another prompt's blocks, which have the same statistics, move it by a few
hundredths only.
"""

import array
import contextlib
import re
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.container import Container
from tests.serve.engine import prompt
from tests.serve.fleet import Fleet
from tests.serve.test_10_hits import settle
from tests.serve.test_12_observed import Observer
from tests.serve.test_70_full import shared
from tests.serve.test_75_damaged import DAMAGED

SECTOR = 512
MARK, CHECKSUM = b"kvsums 1", struct.Struct("<8sI")
LARGER = 4 << 7  # added to a bfloat16: its exponent plus four
CLEAN = 45.0  # seconds of clean rounds
PATIENCE = 300.0  # seconds
WRITTEN = 0.3  # seconds after which a file is whole
SEGMENT = 48 << 20  # bytes of a store: no other mapping has so many
PAGE = 4096


def checksum(block: bytes, path: Path) -> bytes:
    """What programs/native/checked_files.py writes behind a block."""
    numbers = array.array("Q", block)
    step = SECTOR // 8
    sums = [sum(numbers[at : at + step]) % 2**64 for at in range(0, len(numbers), step)]
    name = str(path).rpartition("/checked-1/")[2].encode()
    return CHECKSUM.pack(MARK, zlib.crc32(array.array("Q", sums).tobytes(), zlib.crc32(name)))


def scaled(block: bytes) -> bytes:
    """The block's numbers, sixteen times as large."""
    return array.array("H", ((n + LARGER) % 65536 for n in array.array("H", block))).tobytes()


class Fault(threading.Thread):
    """Does something to each new block until it is told to stop. `blocks`: how many it was."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done, self.blocks = threading.Event(), 0

    def act(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        while not self.done.wait(0.05):
            self.act()


class FilesFault(Fault):
    """Changes each new file, once it is whole."""

    def __init__(self, folder: Path, change: Callable[[Path, bytes], bytes]):
        super().__init__()
        self.folder, self.change = folder, change
        self.known = set(folder.rglob("*.bin"))

    def act(self) -> None:
        for file in sorted(set(self.folder.rglob("*.bin")) - self.known):
            if time.time() - file.stat().st_mtime < WRITTEN:
                continue
            self.known.add(file)
            other = file.with_suffix(".scaled")
            other.write_bytes(self.change(file, file.read_bytes()))
            other.replace(file)
            self.blocks += 1


class MemoryFault(Fault):
    """Changes each page that a store is sent. Its segment is the mapping of `size` bytes."""

    def __init__(self, container: Container, size: int):
        super().__init__()
        self.mem, self.start = self._segment(container, size)
        self.known = bytearray(self._read(size))

    @staticmethod
    def _segment(container: Container, size: int) -> tuple[Path, int]:
        for process in container.processes():
            maps = (process / "maps").read_text()
            for begin, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", maps, re.M):
                if int(end, 16) - int(begin, 16) == size:
                    return process / "mem", int(begin, 16)
        raise LookupError(f"no segment of {size} bytes")

    def _read(self, size: int) -> bytes:
        with self.mem.open("rb", 0) as memory:
            memory.seek(self.start)
            return memory.read(size)

    def act(self) -> None:
        now = self._read(len(self.known))
        with self.mem.open("r+b", 0) as memory:
            for at in range(0, len(now), PAGE):
                page = now[at : at + PAGE]
                if page == self.known[at : at + PAGE]:
                    continue
                memory.seek(self.start + at)
                memory.write(scaled(page))
                self.known[at : at + PAGE] = scaled(page)
                self.blocks += 1


def of_native(file: Path, content: bytes) -> bytes:
    """The file of an engine that stored the block with another scale."""
    size = content.rindex(MARK)
    assert content[size : size + CHECKSUM.size] == checksum(content[:size], file)
    block = scaled(content[:size])
    made = checksum(block, file)
    return block + made + content[size + len(made) :]


def fault(fleet: Fleet) -> Fault:
    """A fault of the pair's blocks that has not begun."""
    if fleet.pair.name == "vllm-mooncake":
        return MemoryFault(fleet.tier.container("store"), SEGMENT)
    folder = shared(fleet, {"spec": fleet.engines["first"].pod.spec})
    natives = fleet.pair.name == "vllm-native"
    return FilesFault(folder, of_native if natives else lambda _, content: scaled(content))


@contextlib.contextmanager
def running(fault: Fault) -> Iterator[Fault]:
    fault.start()
    try:
        yield fault
    finally:
        fault.done.set()
        fault.join()


@pytest.mark.long
@pytest.mark.pairs("vllm-native", "sglang-hicache-file", "vllm-mooncake")
def test_canary_finds_blocks_of_another_scale(fleet: Fleet, tmp_path: Path, proof) -> None:
    if "store" in fleet.pair.parts:
        fleet.tier.memory = SEGMENT
        fleet.tier.replace("store")
    # One after the other: each has ten minutes to start, which two at once may need.
    engines = [*fleet.ready("first"), *fleet.ready("second")]
    # The words are wrong, and nothing is counted.
    with running(fault(fleet)) as seen:
        right = engines[0].ask(prompt(918))
        settle(fleet, engines[0])
        time.sleep(2)
        assert seen.blocks > 0
        before = engines[1].external()
        wrong = engines[1].ask(prompt(918))
        assert engines[1].external() > before
        assert not wrong.alike(right)
    settings = {"canary": {"every": 1, "tokens": 512}}
    constants = {"FIRST": 1.0, "SETTLE": 3.0}
    observer = Observer(tmp_path, fleet, *engines, settings=settings, constants=constants)
    try:
        begun = time.monotonic()
        while time.monotonic() - begun < CLEAN or observer.model.get("canary") != "Compared":
            assert time.monotonic() - begun < PATIENCE, observer.model
            assert observer.model.get("state") != "WrongBlocks"
            time.sleep(0.5)
        begun = time.monotonic()
        with running(fault(fleet)):
            while observer.model.get("state") != "WrongBlocks":
                assert time.monotonic() - begun < PATIENCE, observer.model
                time.sleep(0.5)
        seconds = time.monotonic() - begun
    finally:
        observer.close()
    print(f"accused after {seconds:.0f} s: {observer.model}; {wrong.text!r} {right.text!r}")
    assert observer.model["at"] in {engine.pod.address for engine in engines}
    assert not any(engine.counted(DAMAGED) for engine in engines)
    proof("blocks of another scale", seconds=round(seconds))
