"""Rules as promtool reads them: of whole tiers of every backend, and of the function."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from function.backends.registry import BACKENDS
from function.composers.tier_plan import TierPlan, plan
from function.edge.structs import encode
from tests.tools import find

ROOT = Path(__file__).parents[2]
FUNCTION = ROOT / "package/monitoring/function.yaml"
NAME, NAMESPACE = "chat", "modelplane-system"
Rule = dict[str, Any]

_CLAIM = {"namespace": "default"}
_EVICTOR = {"sizeGiB": 10, "namespace": "default"}
# The fullest tier of each backend: each of its alerts is in the rules.
TIERS: dict[str, dict[str, Any]] = {
    "LMCache": {
        "lmcache": {
            "l1": {"sizeGiB": 8},
            "l2": [
                {
                    "name": "nvme",
                    "type": "Disk",
                    "disk": {"sizeGiB": 10, "hostPath": {"path": "/mnt/nvme/kv"}},
                }
            ],
        }
    },
    "Mooncake": {"mooncake": {"store": {"sizeGiB": 8}}},
    "Native": {"native": {"cpu": {"sizeGiB": 1}}},
    "NIXL": {"nixl": {"preflight": {}}},
    "HiCache": {"hicache": {"host": {"sizeGiB": 8}}},
}


@cache
def tier(backend: str) -> TierPlan:
    """The plan of a tier of that backend, with everything that can be monitored."""
    spec = {
        "inferenceClusterRef": {"name": "gke"},
        "backend": backend,
        "observe": {} if backend == "NIXL" else {"canary": {}},
        "monitoring": {"podMonitor": True, "enginePorts": [8000], "alerts": True},
        **TIERS[backend],
    }
    planned = plan(NAMESPACE, NAME, spec, encode(spec), BACKENDS)
    assert isinstance(planned, TierPlan), planned
    return planned


def groups(backend: str) -> list[dict[str, Any]]:
    """The groups of the PrometheusRule of that backend's tier; of the function for ""."""
    if not backend:
        documents = yaml.safe_load_all(FUNCTION.read_text())
        (rule,) = [d for d in documents if d["kind"] == "PrometheusRule"]
    else:
        (rule,) = [p.manifest for p in tier(backend).parts if p.key == "prometheusrule"]
    found: list[dict[str, Any]] = rule["spec"]["groups"]
    return found


def alerts() -> Iterator[tuple[str, Rule]]:
    """Each alert with the backend in whose tier it is, "" for the function's."""
    for backend in (*TIERS, ""):
        for group in groups(backend):
            yield from ((backend, rule) for rule in group["rules"] if "alert" in rule)


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What promtool says."""
    command = [str(find.require("promtool")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)
