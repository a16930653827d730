"""What happens one after the other: programs that went wrong or nearly did, and quick random ones.

`make fuzz` tries random ones at length (tests/fuzz/over_time.py).
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.unit.composers.over_time import OverTime, Wish

TestOverTime = OverTime.TestCase
TestOverTime.settings = settings(
    max_examples=15,
    stateful_step_count=10,
    phases=[Phase.generate],
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

Step = tuple[Any, ...]

HALF = ("--dtype=float16",)
BRAIN = ("--dtype=bfloat16",)
GONE: Step = ("nodes_change", "gpu", (2, 0))
BACK: Step = ("nodes_change", "gpu", (2, 2))


def run(shape: str = "replica", engine: str = "vllm", **wish: Any) -> Wish:
    return Wish(shape, engine, **wish)


def edit(which: int, what: str, value: Any) -> Step:
    return "edit", which, (what, value)


def deploy(*wish: str, **more: Any) -> Step:
    return "deploy", run(*wish, **more)


SGLANG = run(engine="sglang")  # told apart on "shared memory" by its model alone
ROLL: Step = ("edit_tier", "chat", "rolling")
NEW: Step = ("edit_tier", "chat", "startup")
CLOSE: Step = ("edit_tier", "chat", "closed")
OPEN: Step = ("edit_tier", "chat", "open")
OTHER = edit(0, "tier", "wide")
GOES: Step = ("cluster_goes_or_comes", "gpu")
REFUSE: Step = ("writes_are_refused_or_taken", "a")

# name: (what both tiers are, the first consumer, what happens)
PROGRAMS: dict[str, tuple[str, Wish, list[Step]]] = {
    "turned off and on": (
        "node server", run(), [edit(0, "policy", "Off"), edit(0, "policy", "Required")],
    ),
    "asks no more": ("node server", run(), [edit(0, "tier", "")]),
    "a field asks no more": ("node server", run("field"), [edit(0, "tier", "")]),
    "another tier": ("in process", run(), [OTHER]),
    "another tier, bare": ("in process", run("bare"), [OTHER]),
    "another tier by a field": ("in process", run("field"), [OTHER]),
    "another tier, pinned": ("in process", run(), [("edit_tier", "wide", "pinned"), OTHER]),
    "another tier that is not there": (
        "in process", run("field"), [("delete_tier", "wide"), OTHER, ("delete_tier", "chat")],
    ),
    "another tier that is closed": (
        "in process", run("field"), [("edit_tier", "wide", "closed"), OTHER],
    ),
    "another cluster": ("in process", run(tier="wide"), [edit(0, "cluster", "gpu2")]),
    "another cluster, by a field": (
        "in process", run("field", tier="wide"), [edit(0, "cluster", "gpu2")],
    ),
    "another cluster without the tier": ("in process", run(), [edit(0, "cluster", "gpu2")]),
    "optional, about another tier": (
        "in process", run("field", policy="Optional"), [("delete_tier", "chat"), OTHER],
    ),
    "optional, and of use to another backend": (
        "nixl", run(engine="stock sglang", tier="wide", policy="Optional"),
        [("declare_tier", "wide", "pages")],
    ),
    "another model, and one of the old": (
        "shared memory", SGLANG,
        [edit(0, "model", "Qwen/Qwen3-8B"), deploy(engine="sglang", arguments=HALF)],
    ),
    "siblings roll": (
        "shared memory", SGLANG,
        [("deploy", SGLANG), edit(0, "arguments", HALF), edit(1, "arguments", HALF)],
    ),
    "a pair of two identities": (
        "shared memory", run("pair", "sglang"), [edit(0, "arguments", HALF)],
    ),
    "a roll": ("node server", run(), [ROLL, ("deploy", run()), ("deploy", run()), NEW]),
    "a roll, bare and a pair": (
        "node server", run("bare"), [ROLL, ("deploy", run("pair")), ("deploy", run()), NEW],
    ),
    "a roll that one cannot follow": (
        "node server", run(),
        [ROLL, ("deploy", run()), ("pods_fail_or_recover", "a"), NEW,
         ("pods_fail_or_recover", "a")],
    ),
    "a roll that a cluster refuses": ("node server", run(), [ROLL, REFUSE, NEW, REFUSE]),
    "an edit while its writes are refused": (
        "node server", run(),
        [REFUSE, edit(0, "arguments", HALF), GONE, edit(0, "arguments", BRAIN), REFUSE, BACK],
    ),
    "an edit that waits for agents": (
        "node server", run(), [GONE, edit(0, "arguments", HALF), BACK],
    ),
    "an edit that waits to be let in": (
        "node server", run(), [CLOSE, edit(0, "arguments", HALF), OPEN],
    ),
    "an edit that no agent takes": ("node server", run(), [edit(0, "engine", "old vllm")]),
    "a bare one edited while its tier is away": (
        "node server", run("bare"), [GONE, edit(0, "arguments", HALF), BACK],
    ),
    "not valid any more": (
        "node server", run(), [("declare_tier", "chat", "broken"), ("deploy", run()),
                               ("declare_tier", "chat", "node server")],
    ),
    "a fleet, not valid any more": (
        "node server", run(tier="wide"), [("declare_tier", "wide", "broken"),
                                          ("declare_tier", "wide", "node server")],
    ),
    "another backend in use": ("node server", run(), [("declare_tier", "chat", "pool")]),
    "another backend of a fleet": (
        "node server", run(tier="wide"), [("declare_tier", "wide", "pool"),
                                          ("declare_tier", "wide", "node server")],
    ),
    "the cluster goes": ("node server", run(), [GOES, ("deploy", run()), GOES]),
    "the cluster of a fleet goes": (
        "in process", run(tier="wide"), [GOES, ("delete", 0), GOES],
    ),
    "a closed tier is deleted": (
        "in process", run(tier="wide"),
        [("edit_tier", "wide", "closed"), ("delete_tier", "wide"), ("delete", 0)],
    ),
    "pages in a pool": (
        "pool", run(engine="stock sglang", tier="wide"),
        [("declare_tier", "wide", "pages in a pool"), ("delete_tier", "chat"), GONE, BACK],
    ),
    "a pool in itself": ("pages in a pool", run(engine="stock sglang"), []),
    "a damaged record": ("node server", run(), [("damage_record", 0)]),
    "a damaged record while the tier is away": (
        "node server", run("field"), [GONE, ("damage_record", 0), BACK],
    ),
    "an engine becomes a router": (
        "node server", run(), [edit(0, "engine", "router"), edit(0, "engine", "vllm")],
    ),
    "a restart in the middle of all": (
        "node server", run(), [ROLL, ("deploy", run("bare")), NEW, ("function_restarts",),
                               edit(0, "policy", "Off"), ("function_restarts",)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_invariants_hold_after_each_step(name: str) -> None:
    spec, first, steps = PROGRAMS[name]
    world = OverTime()
    for rule, *given in [("start", spec, True, first), *steps]:
        _rule(rule)(world, *given)
        world.it_holds()
    world.teardown()


def _rule(name: str) -> Any:
    made = getattr(OverTime, name)
    return getattr(made, "__wrapped__", made)
