"""The rows of architectures with recurrent state are those of the engine's own classes."""

import json
import subprocess
from pathlib import Path

import pytest

from function.contract.models.families import ARCHITECTURES, HYBRID, of_architecture
from tests.conformance.envs import environment

CHECKER = Path(__file__).parent / "checkers" / "hybrid_classes.py"
# Without attention, and without any state between tokens: a segmentation model, for pooling.
STATELESS = {"Terratorch"}


@pytest.fixture(scope="module")
def classes() -> set[str]:
    done = subprocess.run(
        [environment("vllm").python, CHECKER], text=True, capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    assert len(found["hybrid"]) > 30
    return set(found["hybrid"] + found["free"]) - STATELESS


def test_every_class_with_recurrent_state_is_in_the_table(classes):
    rows = {name: of_architecture(name) for name in classes}
    assert {
        name for name, row in rows.items() if row is None or HYBRID not in row.families
    } == set()


def test_recurrent_rows_exist_in_this_release(classes):
    row = next(r for r in ARCHITECTURES if r.source.startswith("vLLM 0.33.0: classes"))
    assert row.names <= classes
