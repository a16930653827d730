"""A sixth backend as a stranger adds it, in a copy of the tree: `sixth/` holds all that is written.

It brings what no other has: a wheel that engines' images must hold, and variables of its own. What
one more backend may touch is a promise of docs/backends.md; whatever here does not pass without
another file touched breaks it.
"""

from pathlib import Path

import pytest

from tests.unit.contract import stranger

# What `make generate` may write anew.
GENERATED = {
    "docs/accelerators.md",
    "docs/api.md",
    "docs/api/input.md",
    "docs/api/kvoffloadtier-sixth.md",
    "docs/api/kvoffloadtier.md",
    "docs/api/modeldeployment.md",
    "docs/connectors.md",
    "docs/images.md",
    "docs/models.md",
    "docs/support.md",
    "docs/versions.md",
    "package/input/kvoffload.fn.modelplane.ai_inputs.yaml",
    "xrd/kvoffloadtier.yaml",
    "xrd/standalone/inferencecluster.yaml",
    "xrd/standalone/modeldeployment.yaml",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy, with the sixth in it and everything generated."""
    root = tmp_path_factory.mktemp("sixth")
    stranger.copy_tree(root)
    stranger.add_sixth_backend(root)
    stranger.generate(root)
    return root


def test_new_backend_keeps_the_contract(tree: Path) -> None:
    suites = ("contract/test_every_backend.py", "backends/test_golden.py", "house")
    assert "Sixth" not in stranger.run_tests(tree, "Sixth", *suites)


def test_generated_pages_and_types_name_the_new_backend(tree: Path) -> None:
    assert stranger.generated(tree) <= GENERATED
    assert "| Sixth | vLLM | `>=0.24.0` |" in (tree / "docs/support.md").read_text()
    assert "SimpleCPUOffloadConnector/sixth" in (tree / "docs/versions.md").read_text()
    assert "Settings of backend Sixth." in (tree / "xrd/kvoffloadtier.yaml").read_text()
    assert "sixthcache" in (tree / "xrd/standalone/modeldeployment.yaml").read_text()


WIRING = """
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe
from function.contract.stock_images import declared, named

KEY, READY = "model-serving-main", "KVOffloadReady"
required = d.requirements(d.ready_tier(backend="Sixth", lmcache=None, sixth={"sizeGiB": 1}))

def wire(held, observed=None, required=required):
    document = d.engine()
    pod = d.wired_pod(document)
    pod["metadata"]["annotations"]["modelplane.ai/kv-offload-packages"] = held
    return call(d.replica(), desired={KEY: document}, observed=observed or {}, required=required)

for held in ("sixthcache=1.1.0", "lmcache=0.5.6"):
    status, reason = wire(held).conditions[READY]
    assert (status, reason) == ("False", "VersionMismatch"), (held, status, reason)
once = wire("sixth-cache-cu13=1.2.3")
assert once.conditions[READY] == ("True", "Wired"), once.conditions
env = {e["name"]: e for e in d.wired_pod(once.desired[KEY])["spec"]["containers"][0]["env"]}
assert env["SIXTH_CACHE_ADDRESS"]["value"].endswith(":7000")
assert env["SIXTH_CACHE_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "sixth", "key": "token"}}
lost = wire("sixth-cache-cu13=1.2.3", observe(once), d.requirements())
assert lost.desired[KEY] == once.desired[KEY], lost.conditions
assert set(named.named("me/serve:1-sixthcache1.2.3", {})) == {"sixthcache"}
"""


def test_wheel_and_variables_of_the_new_backend(tree: Path) -> None:
    """A pod is refused without the wheel, wired with it, and stays wired when the tier is lost."""
    stranger.python(tree, "-c", WIRING)
