"""LMCache's goldens (goldens.py)."""

from pathlib import Path

from function.api.engines import VLLM
from function.backends.lmcache import BACKEND
from function.contract.engine import Engine
from tests.unit.backends.goldens import Goldens
from tests.unit.backends.lmcache import tier

HERE = Path(__file__).parent
ENGINE = Engine(VLLM, "0.33.0", flags={"--tensor-parallel-size": "8"}, identity="0123456789ab")
GOLDENS = Goldens(HERE, BACKEND, tier, {"injection": ENGINE})
