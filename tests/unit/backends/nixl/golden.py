"""NIXL's goldens (goldens.py)."""

from pathlib import Path

from function.api.engines import SGLANG
from function.backends.nixl import BACKEND
from tests.unit.backends.goldens import Goldens
from tests.unit.backends.nixl import engine, tier

HERE = Path(__file__).parent
_TWO = {"--data-parallel-size": "2", "--tensor-parallel-size": "4"}
ENGINES = {
    "prefill": engine(flags=_TWO),
    "decode": engine(phase="Decode"),
    "sglang-prefill": engine(SGLANG, flags={"--tp-size": "8"}),
    "sglang-decode": engine(SGLANG, phase="Decode"),
}
GOLDENS = Goldens(HERE, BACKEND, tier, ENGINES)
