"""Blocks of another scale: engines answer wrongly, no counter shows it, and the canary finds it.

Each block gets the numbers that an engine with another scale of its cache (`k_scale`, `v_scale`)
would have stored, sixteen times as large: in vLLM's files with the checksum that it would have
written, and in SGLang's files. This model with random weights is moved by such blocks; another
prompt's blocks, which have the same statistics, move it by a few hundredths only.
"""

import array
import contextlib
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serve import author
from tests.serve.engine import Answer, prompt
from tests.serve.fleet import Fleet
from tests.serve.stores import Files
from tests.serve.test_10_hits import settle
from tests.serve.test_12_observed import Observer
from tests.serve.test_70_full import shared
from tests.serve.test_75_damaged import DAMAGED

SECTOR = 512
MARK, CHECKSUM = b"kvsums 1", struct.Struct("<8sI")
LARGER = 4 << 7  # added to a bfloat16: its exponent plus four
CLEAN = 45.0  # seconds of clean rounds
PATIENCE = 300.0  # seconds
BEGIN = 4  # tokens
WRITTEN = 0.3  # seconds after which a file is whole


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
    """Changes each new file of blocks, once it is whole. `files`: how many it has changed."""

    def __init__(self, folder: Path, change: Callable[[Path, bytes], bytes]):
        super().__init__(daemon=True)
        self.folder, self.change, self.store = folder, change, Files(folder)
        self.done, self.files = threading.Event(), 0
        self.known = set(folder.rglob("*.bin"))

    def run(self) -> None:
        while not self.done.wait(0.05):
            for file in sorted(set(self.folder.rglob("*.bin")) - self.known):
                if time.time() - file.stat().st_mtime < WRITTEN:
                    continue
                self.known.add(file)
                self.store.write(str(file), self.change(file, file.read_bytes()))
                self.files += 1


def of_native(file: Path, content: bytes) -> bytes:
    """The file of an engine that stored the block with another scale."""
    size = content.rindex(MARK)
    assert content[size : size + CHECKSUM.size] == checksum(content[:size], file)
    block = scaled(content[:size])
    made = checksum(block, file)
    return block + made + content[size + len(made) :]


def fault(fleet: Fleet) -> Fault:
    """A fault of the pair's blocks that has not begun."""
    folder = shared(fleet, {"spec": fleet.engines["first"].pod.spec})
    natives = fleet.pair.name == "vllm-native"
    return Fault(folder, of_native if natives else lambda _, content: scaled(content))


@contextlib.contextmanager
def running(fault: Fault) -> Iterator[Fault]:
    fault.start()
    try:
        yield fault
    finally:
        fault.done.set()
        fault.join()


@pytest.mark.long
@pytest.mark.pairs("vllm-native", "sglang-hicache-file")
def test_canary_finds_blocks_of_another_scale(fleet: Fleet, tmp_path: Path, proof) -> None:
    # One after the other: each has ten minutes to start, which two at once may need.
    engines = [*fleet.ready("first"), *fleet.ready("second")]
    # The words are wrong, and nothing is counted.
    with running(fault(fleet)) as seen:
        right = engines[0].ask(prompt(918))
        settle(fleet, engines[0])
        time.sleep(2)
        assert seen.files > 0
        before = engines[1].external()
        wrong = engines[1].ask(prompt(918))
        assert engines[1].external() > before
        assert not begin_alike(wrong, right)
    settings = {"canary": {"every": 1, "tokens": 512}}
    constants = {"FIRST": 1.0, "SETTLE": 3.0, "DOUBT": 1.0}
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
    leave_behind(fleet, observer.model, right)
    proof("quarantined after wrong blocks", texts="right")


def begin_alike(one: Answer, other: Answer) -> bool:
    """Whether two answers agree in what rounding moves little: their first tokens."""
    pairs = zip(one.logprobs[:BEGIN], other.logprobs[:BEGIN], strict=True)
    return all(abs(a - b) < 0.1 for a, b in pairs)


def leave_behind(fleet: Fleet, accused: dict[str, str], right: Answer) -> None:
    """Engines that are wired to the tier as it is in quarantine read none of the wrong blocks."""
    for name in ("first", "second"):
        fleet.stop(name)
    row = {"namespace": accused["namespace"], "name": accused["model"], "number": 1, "open": True}
    fleet.declared.status["quarantine"] = [row]
    try:
        wired = fleet.wired({"main": author.USUAL})
        for name, hits in (("third", False), ("fourth", True)):
            engine = fleet.run(name, wired)
            engine.wait()
            assert begin_alike(engine.ask(prompt(918)), right)
            assert (engine.external() > 0) is hits
            settle(fleet, engine)
    finally:
        fleet.declared.status.clear()
        for name in ("third", "fourth"):
            fleet.stop(name)
