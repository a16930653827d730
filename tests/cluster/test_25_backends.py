"""A tier of each backend becomes Ready, from the smallest example of its documentation."""

import time
from pathlib import Path

import pytest

from tests.cluster.documents import FIRST, TOLERATED, changed
from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, condition, is_true, load

EXAMPLES = sorted((CHECKOUT / "example").glob("*/smallest.yaml"))
MAX_CALLS = 40


def placed(file: Path) -> Manifest:
    """The example as it stands, on a cluster of the rig and tolerating its GPU nodes' taint."""
    (document,) = load(file)
    document = changed(document, "metadata.name", f"smallest-{file.parent.name}")
    document = changed(document, "spec.inferenceClusterRef.name", FIRST)
    if not has_agents(document):
        return document
    return changed(document, "spec.nodes.tolerations", [TOLERATED])


def has_agents(document: Manifest) -> bool:
    """Whether anything of the tier runs on nodes; some are nothing but wiring."""
    return "nodes" in document["spec"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_the_smallest_example_becomes_ready(world: Fleet, summary: Summary, file: Path):
    document = placed(file)
    began, calls, tokens = time.monotonic(), world.calls(), world.tokens()
    with world.applied(document):
        found = world.until_ready(document, limit=60)
        seconds = time.monotonic() - began
        spent = world.calls() - calls
        summary.note(
            f"{found['spec']['backend']}: Ready after {seconds:.1f} s, {spent} calls,"
            f" {world.tokens() - tokens} tokens, {len(world.objects(document))} Objects"
        )
        assert spent <= MAX_CALLS
        assert is_true(found, "ControlPlaneReady"), world.explain(document)
        assert condition(found, "ControlPlaneReady")["reason"] in ("Ready", "NoneNeeded")
        reason, summed = ("Ready", "3/3") if has_agents(document) else ("NoneNeeded", "0/0")
        assert is_true(found, "AgentsReady"), world.explain(document)
        assert condition(found, "AgentsReady")["reason"] == reason
        assert found["status"]["agents"]["summary"] == summed
        if not is_true(world.get(document), "Ready"):
            summary.note(f"Ready no longer:\n{world.explain(document)}")


def test_every_backend_has_an_example(world: Fleet):
    served = {load(file)[0]["spec"]["backend"] for file in EXAMPLES}
    definition = load(CHECKOUT / "xrd" / "kvoffloadtier.yaml")[0]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert served == set(schema["properties"]["spec"]["properties"]["backend"]["enum"])
