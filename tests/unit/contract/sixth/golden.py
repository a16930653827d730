"""Sixth's goldens (goldens.py)."""

import functools
from pathlib import Path

from function.api.engines import VLLM
from function.backends.sixth import BACKEND
from function.contract.engine import Engine
from tests.unit.backends import tiers
from tests.unit.backends.goldens import Goldens

ENGINES = {"vllm": Engine(VLLM, version="0.33.0")}
GOLDENS = Goldens(Path(__file__).parent, BACKEND, functools.partial(tiers.tier, "Sixth"), ENGINES)
