"""HiCache's goldens (goldens.py)."""

from pathlib import Path

from function.api.engines import SGLANG
from function.backends.hicache import BACKEND, gate
from function.backends.mooncake import gate as mooncake_gate
from function.contract.engine import Engine
from tests.unit.backends.goldens import Goldens
from tests.unit.backends.hicache import IDENTITY, tier

HERE = Path(__file__).parent
# Of every row: which version has what there is the gate's to test.
FEATURES = frozenset(f.name for row in (*gate.ROWS, *mooncake_gate.ROWS) for f in row.features)
ENGINES = {
    "sglang": Engine(
        SGLANG,
        version="0.5.23",
        identity=IDENTITY,
        flags={"--tp-size": "8"},
        features=FEATURES,
    )
}
GOLDENS = Goldens(HERE, BACKEND, tier, ENGINES)
