"""Files that a disk has damaged: the tokens are computed again, and the words are right."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.engine import Engine, prompt
from tests.serve.fleet import LLAMA, SEEDS, Fleet
from tests.serve.test_10_hits import fill, hit, settle
from tests.serve.test_70_full import shared

SEED = 6
DAMAGED = "vllm:kv_offload_tiering_damaged_files_total"


def zero_half(content: bytes) -> bytes:
    """What a disk that lost writes has left: the second half is zero."""
    half = len(content) // 2
    return content[:half] + bytes(len(content) - half)


def zero_halves(folder: Path) -> int:
    """Zero half of every file of blocks. Return how many."""
    files = list(folder.rglob("*.bin"))
    for file in files:
        file.write_bytes(zero_half(file.read_bytes()))
    return len(files)


def again(fleet: Fleet, engine: Engine, proof, case: str) -> None:
    """Ask when every file is damaged: nothing is taken from one, and the damage is counted."""
    before, counted = engine.external(), engine.counted(DAMAGED)
    assert engine.ask(prompt(SEED)) == fleet.reference(SEED)
    assert engine.external() == before
    files = int(engine.counted(DAMAGED) - counted)
    assert files > 0
    assert f"{files} damaged files were removed" in engine.log
    settle(fleet, engine)
    engine.forget()
    tokens = hit(fleet, engine, SEED)  # what was computed again is stored again
    proof(case, files=files, words="right", tokens_after=tokens)


@pytest.mark.long
@pytest.mark.pairs("vllm-native")
def test_damaged_files_are_computed_again(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    (engine,) = fleet.ready("first")
    volume = shared(fleet, {"spec": engine.pod.spec})
    fill(fleet, engine, SEED)
    engine.forget()
    assert zero_halves(volume)
    again(fleet, engine, proof, "half of each file zeroed")
    fleet.stop("first")
    assert zero_halves(volume)
    (engine,) = fleet.ready("first")
    again(fleet, engine, proof, "half of each file zeroed, another engine")


def flip(draw: random.Random, file: Path, other: Path) -> None:
    """Change one bit."""
    content = bytearray(file.read_bytes())
    at = draw.randrange(CHECKED * len(content) // 100)
    content[at] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def zero(draw: random.Random, file: Path, other: Path) -> None:
    """Zero a half."""
    file.write_bytes(zero_half(file.read_bytes()))


def shorten(draw: random.Random, file: Path, other: Path) -> None:
    """Cut the file, as a disk that was full."""
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(len(content) * CHECKED // 100)])


def mix(draw: random.Random, file: Path, other: Path) -> None:
    """Put another block's file, checksum and all, in its place: stale, or another prompt's."""
    file.write_bytes(other.read_bytes())


KINDS: tuple[Callable[[random.Random, Path, Path], None], ...] = (flip, zero, shorten, mix)
CHECKED = 90  # percent of a file that hold the block: what fills its last page is not read


@pytest.mark.long
@pytest.mark.pairs("vllm-native")
def test_a_thousand_faults_are_found(fleet: Fleet, proof) -> None:
    """Each file of many prompts has one fault of four kinds: all are found when they are read."""
    fleet.prepare(LLAMA)
    (engine,) = fleet.ready("first")
    volume = shared(fleet, {"spec": engine.pod.spec})
    for file in volume.rglob("*.bin"):
        file.unlink()
    engine.forget()
    for seed in SEEDS:
        engine.ask(prompt(seed), tokens=1)
        settle(fleet, engine)
    engine.forget()
    files = sorted(volume.rglob("*.bin"))
    blocks = sum((len(prompt(seed)) - 1) // fleet.pair.chunk for seed in SEEDS)
    assert len(files) == blocks > 1000
    draw, whole = random.Random(912), [file.read_bytes() for file in files]
    for number, file in enumerate(files):
        other = files[(number + draw.randrange(1, len(files))) % len(files)]
        KINDS[number % len(KINDS)](draw, file, other)
    assert all(file.read_bytes() != before for file, before in zip(files, whole, strict=True))
    counted, external = engine.counted(DAMAGED), engine.external()
    for seed in SEEDS:
        assert engine.ask(prompt(seed)) == fleet.reference(seed)
    assert engine.external() == external
    found = int(engine.counted(DAMAGED) - counted)
    settle(fleet, engine)
    engine.forget()
    proof("a thousand damaged files", files=len(files), found=found, words="right")
    assert found == len(files)
    hit(fleet, engine, SEED)
