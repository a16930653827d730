"""Mooncake's goldens (goldens.py)."""

from pathlib import Path

from function.backends.mooncake import BACKEND
from tests.unit.backends.goldens import Goldens
from tests.unit.backends.mooncake import sglang, tier, vllm

HERE = Path(__file__).parent
ENGINES = {
    "vllm": vllm(flags={"--tensor-parallel-size": "8"}),
    "sglang": sglang(flags={"--tp-size": "8"}),
}
GOLDENS = Goldens(HERE, BACKEND, tier, ENGINES)
