"""HiCache's goldens (goldens.py)."""

from pathlib import Path

from function.api.engines import SGLANG
from function.backends.hicache import BACKEND
from function.backends.mooncake import BACKEND as MOONCAKE
from function.contract.engine import Engine
from tests.unit.backends.goldens import Goldens
from tests.unit.backends.hicache import IDENTITY, tier

HERE = Path(__file__).parent
# Of every row: which version has what there is the gate's to test.
ROWS = (*BACKEND.rows.gate, *MOONCAKE.rows.gate)
FEATURES = frozenset(feature.name for row in ROWS for feature in row.features)
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
