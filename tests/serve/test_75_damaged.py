"""Files that a disk has damaged: the tokens are computed again, and the words are right."""

from pathlib import Path

import pytest

from tests.serve.engine import Engine, prompt
from tests.serve.fleet import LLAMA, Fleet
from tests.serve.test_10_hits import fill, hit, settle
from tests.serve.test_70_full import shared

SEED = 6
DAMAGED = "vllm:kv_offload_tiering_damaged_files_total"


def zero_halves(folder: Path) -> int:
    """Zero the second half of every file of blocks, as a disk that lost writes. Return how many."""
    files = list(folder.rglob("*.bin"))
    for file in files:
        size = file.stat().st_size
        with file.open("r+b") as stream:
            stream.seek(size // 2)
            stream.write(bytes(size - size // 2))
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
