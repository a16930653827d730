"""Native's goldens (goldens.py)."""

from pathlib import Path

from function.backends.native import BACKEND
from tests.unit.backends.goldens import Goldens
from tests.unit.backends.native import tier, vllm

HERE = Path(__file__).parent
# Of no namespace: each case has its own.
ENGINES = {"vllm": vllm(flags={"--tensor-parallel-size": "8"}, namespace="")}
GOLDENS = Goldens(HERE, BACKEND, tier, ENGINES)
