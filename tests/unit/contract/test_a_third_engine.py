"""A third engine as a stranger adds it, in a copy of the tree: `third/` holds all that is written.

It is one folder, one line of the registry and rows of facts. The backend that takes it is the sixth
of test_a_sixth, so that no backend of ours knows it.
"""

from pathlib import Path

import pytest

from tests.unit.contract import stranger

WRITTEN = Path(__file__).parent / "third"
OWN = {"function/engines/third": "engine", "function/facts/third.yaml": "third.yaml"}
REPOSITORY = (
    "- {path: third-serve, home: third/third-serve, suggested: true, engine: Third, "
    "examples: ['third/third-serve:v<release>'], entrypoint: [third, serve], tags: version, "
    "accelerator: cuda, source: its Dockerfile}\n"
)
CONNECTOR = "SimpleCPUOffloadConnector/sixth"
# What the backend that takes it says of it.
ROWS = {
    "models:\n": f"- {{connector: {CONNECTOR}, engine: Third}}\n",
    "packages:\n": f"- {{connector: {CONNECTOR}, engine: Third, accelerator: cuda, "
    "served: served}\n",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy, with the engine and a backend that takes it, and everything generated."""
    root = tmp_path_factory.mktemp("third")
    stranger.copy_tree(root)
    stranger.write(root, WRITTEN, OWN)
    stranger.add_line(root, "function/api/engines.py", ")\n\nif TYPE_CHECKING", '    "Third",\n')
    stranger.add_line(root, "function/facts/images.yaml", "builds:\n", REPOSITORY)
    stranger.add_sixth_backend(root)
    for before, row in ROWS.items():
        stranger.add_line(root, "function/backends/sixth/facts.yaml", before, row)
    stranger.generate(root)
    return root


def test_new_engine_keeps_the_contract(tree: Path) -> None:
    suites = ("engines/test_every_engine.py", "house/test_imports.py", "facts")
    stranger.run_tests(tree, "Third or third", *suites)


def test_generated_pages_and_types_name_the_new_engine(tree: Path) -> None:
    assert "| Sixth | Third | all |" in (tree / "docs/support.md").read_text()
    assert "`third/third-serve:v1.0.0`" in (tree / "docs/images.md").read_text()
    assert "- Third" in (tree / "xrd/standalone/modeldeployment.yaml").read_text()
    assert "- Third" in (tree / "package/input/kvoffload.fn.modelplane.ai_inputs.yaml").read_text()


WIRING = """
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe

KEY, READY, EVENTS = "model-serving-main", "KVOffloadReady", {"blockTokens": 64}
NAMED = {"modelplane.ai/kv-offload-tier": "chat"}
HELD = {**NAMED, "modelplane.ai/kv-offload-packages": "sixthcache=1.2.0"}
SAID = {**HELD, "modelplane.ai/kv-offload-engine": "third"}
tier = d.ready_tier(backend="Sixth", lmcache=None, sixth={"sizeGiB": 1}, events=EVENTS)

def wire(args, image, annotations=HELD, required=d.requirements(tier), observed=None):
    document = d.engine(annotations, args=args, image=image)
    container = d.wired_pod(document)["spec"]["containers"][0]
    if args and args[0] == "third":
        container |= {"command": args[:2], "args": args[2:]}
    return call(d.replica(), desired={KEY: document}, observed=observed or {}, required=required)

def container(got):
    assert got.conditions[READY] == ("True", "Wired"), (got.conditions, got.messages)
    (found,) = d.wired_pod(got.desired[KEY])["spec"]["containers"]
    return found

STOCK = "third/third-serve:v1.1.0"
# By its command, by its image, by a declaration.
by_argv = wire(["third", "serve", "m/x", "--cards=4"], "me/own:1")
by_image = wire(["m/x", "--cards", "4"], STOCK)
declared = wire(["m/x", "--cards", "4"], "me/own:1", SAID)
for got in (by_argv, by_image, declared):
    args = container(got)["args"]
    assert args[args.index("--sixth-cache-gib") + 1] == "1", args
    assert args[args.index("--block") + 1] == "64", args
    assert "kv@$(KV_OFFLOAD_POD_IP):9000@m/x" in args[args.index("--kv-events-config") + 1], args
    assert "Third" in got.messages[READY], got.messages
assert "1.1.0" in by_image.messages[READY]
# Wired stays wired, also when its tier is lost.
lost = wire(["m/x", "--cards", "4"], STOCK, required=d.requirements(), observed=observe(by_image))
assert lost.desired[KEY] == by_image.desired[KEY], lost.messages
# Its own flag of the same name, and a version that is too old, are refused.
for args, image, reason in (
    (["m/x", "--sixth-cache-gib", "2"], STOCK, "ConnectorConflict"),
    (["m/x"], "third/third-serve:v0.9.0", "EngineUnsupported"),
):
    got = wire(args, image)
    assert got.conditions[READY] == ("False", reason), got.messages
"""


def test_new_engine_is_wired(tree: Path) -> None:
    """A pod of it is recognised in three ways, wired, replayed and refused."""
    stranger.python(tree, "-c", WIRING)
