"""Mooncake's goldens; `python -m tests.unit.backends.mooncake.golden` writes them anew."""

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
CASES, load, answer = GOLDENS.cases, GOLDENS.load, GOLDENS.answer

if __name__ == "__main__":
    GOLDENS.write()
