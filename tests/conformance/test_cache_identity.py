"""One model string, two identities: both are wired, and on the real server neither finds the other.

test_lmcache_server shows what goes wrong with the string alone. Here two consumers whose earlier
step appended `--model=/mnt/models` come to one tier; the names that their connectors put into the
keys are asked for on the agent that the tier composes.
"""

import json

import pytest
import yaml

from function.backends.lmcache import modules
from tests.conformance.bench import SHAPE, bench
from tests.conformance.manifests import ROOT, one, render
from tests.conformance.pod import Pod
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Outcome, call

KEY = "model-serving-main"
MODEL = "/mnt/models"
PATH = ROOT / "tests/conformance/tiers/memory-only.yaml"
TIER = yaml.safe_load(PATH.read_text())
SIZES = {"--l1-size-gb": "1", "--l1-init-size-gb": "1"}
HALF, BRAIN = (["--model=/mnt/models", f"--dtype={dtype}"] for dtype in ("float16", "bfloat16"))


def _consumer(name: str, args: list[str], claim: str) -> Outcome:
    engine = d.engine({"modelplane.ai/kv-offload-tier": "memory-only"}, args=args)
    pod = engine["spec"]["forProvider"]["manifest"]["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "model", "persistentVolumeClaim": {"claimName": claim}})
    pod["containers"][0]["volumeMounts"].append({"name": "model", "mountPath": MODEL})
    ready = d.ready_tier("memory-only", **{**TIER["spec"], "inferenceClusterRef": {"name": "gpu"}})
    ready["spec"]["allowedNamespaces"] = {"from": "All"}
    required = d.requirements(ready, name="memory-only")
    return call(d.replica(name), desired={KEY: engine}, required=required)


def _keyed_as(of: Outcome) -> str:
    """The model's name in the keys of the consumer's blocks."""
    assert of.conditions["KVOffloadReady"] == ("True", "Wired"), of.messages
    args = d.wired_pod(of.desired[KEY])["spec"]["containers"][0]["args"]
    config = json.loads(args[args.index("--kv-transfer-config") + 1])
    identity = config["kv_connector_extra_config"][modules.IDENTITY]
    return f"{MODEL}##kv-offload-{identity}"


# the second consumer's words, volume and layout -> whether it finds what the first one stored
SECOND: dict[str, tuple[list[str], str, str, bool]] = {
    "a replica": (HALF, "llama", "float16", True),
    "another layout": (BRAIN, "llama", "bfloat16", False),
    "another model at the same path": (HALF, "qwen", "float16", False),
}


@pytest.fixture
def agent(node, engines):
    template = one(render(PATH, ROOT / "example/lmcache/required"), "DaemonSet")["spec"]["template"]
    with Pod(node, template, engines, name="agent", sizes=SIZES) as pod:
        pod.wait_ready(120)
        yield pod


def test_consumers_of_one_model_string_share_no_blocks(agent: Pod) -> None:
    first = _consumer("first", HALF, "llama")
    stored = bench(agent, "agent", model=_keyed_as(first))
    assert stored.cold_hits == [0, 0]
    for name, (args, claim, dtype, shares) in SECOND.items():
        second = _consumer("second", args, claim)
        assert (_keyed_as(second) == _keyed_as(first)) == shares, name
        shape = SHAPE.replace("float16", dtype)
        found = bench(agent, "agent", shape=shape, model=_keyed_as(second))
        assert found.cold_hits == ([4, 4] if shares else [0, 0]), name
        assert found.ok == (0 if shares else 2), "what it reads is the other's, or its own"
        assert (found.checksums == stored.checksums) == (dtype == "float16"), name
