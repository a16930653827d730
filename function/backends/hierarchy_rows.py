"""SGLang's own part of its hierarchical cache: versions, models, accelerators.

HiCache's and Mooncake's rows stand on it: hierarchy.yaml in this folder.
"""

from dataclasses import replace
from pathlib import Path

from function.contract.gate import Feature, GateRow, Rows
from function.facts import Table

# Names of features in hierarchy.yaml and in the rows of storages.
BUFFER_ONLY = "--hicache-host-memory-mode"
SMALL_POOL = "host pool below the GPU's"
FA3 = "--decode-attention-backend fa3"
DECODE_OFFLOAD = "--disaggregation-decode-enable-offload-kvcache"
DECODE_RADIX = "--disaggregation-decode-enable-radix-cache"
PIPELINE = "pipeline parallelism"
PLUGINS = "sglang.srt.plugins"

_FILE = Path(__file__).with_name("hierarchy.yaml")
FEATURES = Table(Feature, _FILE, "features")


def of_storage(path: Path) -> Rows:
    """Return the rows of a backend whose storages stand below the hierarchy, and its own rows."""
    own = Rows.of(path)
    return replace(own, gate=tuple(map(_with_features, own.gate))) + Rows.of(_FILE)


def _with_features(row: GateRow) -> GateRow:
    if not row.connector.startswith("HiCache"):
        return row
    return replace(row, features=(*FEATURES, *row.features))
