"""Blocks that are another prompt's: vLLM answers wrongly, counters are fine, the canary finds it.

Our files have checksums, so a fault behind them is made here: a file gets another prompt's blocks
and the checksum that an engine which stored them would have written.
"""

import array
import contextlib
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.engine import prompt
from tests.serve.fleet import Fleet
from tests.serve.test_10_hits import settle
from tests.serve.test_12_observed import Observer
from tests.serve.test_70_full import shared
from tests.serve.test_75_damaged import DAMAGED

SECTOR = 512
MARK, CHECKSUM = b"kvsums 1", struct.Struct("<8sI")
CLEAN = 60.0  # seconds of clean rounds
PATIENCE = 300.0  # seconds


def checksum(block: bytes, path: Path) -> bytes:
    """What programs/native/checked_files.py writes behind a block."""
    numbers = array.array("Q", block)
    step = SECTOR // 8
    sums = [sum(numbers[at : at + step]) % 2**64 for at in range(0, len(numbers), step)]
    name = str(path).rpartition("/checked-1/")[2].encode()
    return CHECKSUM.pack(MARK, zlib.crc32(array.array("Q", sums).tobytes(), zlib.crc32(name)))


def size_of(content: bytes) -> int:
    """The length of the block in a file: a page with the checksum follows it."""
    return content.rindex(MARK)


class Mixer(threading.Thread):
    """Gives each new file the block of the file before it, until it is told to stop."""

    def __init__(self, folder: Path, donor: Path):
        super().__init__(daemon=True)
        self.folder, self.done, self.mixed = folder, threading.Event(), 0
        self.known = set(folder.rglob("*.bin"))
        content = donor.read_bytes()
        self.donated = content[: size_of(content)]

    def run(self) -> None:
        while not self.done.wait(0.05):
            for file in sorted(set(self.folder.rglob("*.bin")) - self.known):
                self.known.add(file)
                content = file.read_bytes()
                size = size_of(content)
                assert content[size : size + CHECKSUM.size] == checksum(content[:size], file)
                block, self.donated = self.donated, content[:size]
                made = checksum(block, file)
                other = file.with_suffix(".mixed")
                other.write_bytes(block + made + content[size + len(made) :])
                other.replace(file)
                self.mixed += 1


@contextlib.contextmanager
def mixed_up(folder: Path) -> Iterator[Mixer]:
    mixer = Mixer(folder, next(iter(sorted(folder.rglob("*.bin")))))
    mixer.start()
    try:
        yield mixer
    finally:
        mixer.done.set()
        mixer.join()


@pytest.mark.long
@pytest.mark.pairs("vllm-native")
def test_canary_finds_blocks_of_another_prompt(fleet: Fleet, tmp_path: Path, proof) -> None:
    # One after the other: each has ten minutes to start, which two at once may need.
    engines = [*fleet.ready("first"), *fleet.ready("second")]
    volume = shared(fleet, {"spec": engines[0].pod.spec})
    # Checksums do not see it: the words are wrong, and nothing is counted.
    engines[0].ask(prompt(917))
    settle(fleet, engines[0])
    with mixed_up(volume) as mixer:
        right = engines[0].ask(prompt(918))
        settle(fleet, engines[0])
        assert mixer.mixed > 0
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
        with mixed_up(volume):
            while observer.model.get("state") != "WrongBlocks":
                assert time.monotonic() - begun < PATIENCE, observer.model
                time.sleep(0.5)
        seconds = time.monotonic() - begun
    finally:
        observer.close()
    assert observer.model["at"] in {engine.pod.address for engine in engines}
    assert not any(engine.counted(DAMAGED) for engine in engines)
    proof("another prompt's blocks", seconds=round(seconds))
