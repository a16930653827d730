"""Wiring refuses what test_lmcache_server shows to go wrong: two layouts under one model string.

The same tier and the same two layouts, as two consumers whose earlier step appended
`--model=/mnt/models`. The second one's call sees what the first one's composed.
"""

import pytest
import yaml

from tests.conformance.manifests import ROOT
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Outcome, call

KEY = "model-serving-main"
MODEL = "/mnt/models"
TIER = yaml.safe_load((ROOT / "tests/conformance/tiers/memory-only.yaml").read_text())
HALF, BRAIN = (["--model=/mnt/models", f"--dtype={dtype}"] for dtype in ("float16", "bfloat16"))


def _consumer(name: str, args: list[str], claim: str, users: list[d.Document]) -> Outcome:
    engine = d.engine({"modelplane.ai/kv-offload-tier": "memory-only"}, args=args)
    pod = engine["spec"]["forProvider"]["manifest"]["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "model", "persistentVolumeClaim": {"claimName": claim}})
    pod["containers"][0]["volumeMounts"].append({"name": "model", "mountPath": MODEL})
    ready = d.ready_tier("memory-only", **{**TIER["spec"], "inferenceClusterRef": {"name": "gpu"}})
    ready["spec"]["allowedNamespaces"] = {"from": "All"}
    required = d.requirements(ready, name="memory-only", users=tuple(users), model=MODEL)
    return call(d.replica(name), desired={KEY: engine}, required=required)


def _usage(of: Outcome) -> d.Document:
    usage = next(v for key, v in of.desired.items() if key.startswith("usage-"))
    return {**usage, "metadata": {"namespace": "team-a", **usage["metadata"]}}


# the second consumer's words and volume -> whether it is wired beside the first
SECOND: dict[str, tuple[list[str], str, bool]] = {
    "a replica": (HALF, "llama", True),
    "another layout": (BRAIN, "llama", False),
    "another model at the same path": (HALF, "qwen", False),
}


@pytest.mark.parametrize("name", SECOND)
def test_a_second_consumer_of_one_model_string(name: str) -> None:
    args, claim, shares = SECOND[name]
    first = _consumer("first", HALF, "llama", [])
    assert first.conditions["KVOffloadReady"] == ("True", "Wired"), first.messages
    second = _consumer("second", args, claim, [_usage(first)])
    if shares:
        assert second.conditions["KVOffloadReady"] == ("True", "Wired"), second.messages
        return
    assert second.conditions["KVOffloadReady"] == ("False", "CacheIdentityConflict")
    assert KEY not in second.desired
    message = second.messages["KVOffloadReady"]
    assert repr(MODEL) in message
    assert "ModelReplica team-a/first" in message
    assert "modelplane.ai/kv-offload-cache-identity" in message
