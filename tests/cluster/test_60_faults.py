"""Faults: after any loss of a process, the same state is reached again and no data is lost."""

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.cluster.documents import FIRST, SECOND, deployment, tier
from tests.cluster.expect import Fleet, identities
from tests.cluster.groups import Summary
from tests.cluster.rig import crossplane, functions
from tests.cluster.rig.kube import Manifest, Refused, is_true
from tests.cluster.rig.nodes import gpu_node
from tests.cluster.rig.ports import free_ports

CHAT = tier("steady")
QWEN = deployment("serving", "steady")
# Longer than a poll of provider-kubernetes (30 s) and than every client's first retries.
AWAY_SECONDS = 40
# Two polls of provider-kubernetes and a restart: another part may die while one comes back.
SETTLED_SECONDS = 120

State = dict[str, tuple[str, int]]


def state(world: Fleet) -> State:
    """UID and generation of everything that must survive: XRs, Objects, remote workloads, pods."""
    composites = [world.get(CHAT), world.get(QWEN)]
    objects = world.objects(CHAT) + world.objects(QWEN)
    remote = list(world.remote(FIRST).values())
    pods = world.agents(FIRST, CHAT) + world.pods(FIRST, "default")
    found: State = {}
    for kind, manifests in (("xr", composites), ("object", objects), ("", remote), ("pod", pods)):
        for name, value in identities(manifests).items():
            found[f"{kind} {name}"] = value
    return found


@pytest.fixture(scope="module")
def before(world: Fleet) -> Iterator[State]:
    with world.applied(CHAT, QWEN):
        world.until_ready(CHAT)
        world.until_ready(QWEN)
        yield state(world)


@pytest.fixture(autouse=True)
def nothing_is_lost(world: Fleet, before: State) -> Iterator[None]:
    """Every fault ends in the state that it began with."""
    yield
    world.until_ready(CHAT, limit=SETTLED_SECONDS)
    world.until_ready(QWEN, limit=SETTLED_SECONDS)
    world.rig.until(
        lambda: state(world) == before,
        "the state is as before the fault",
        SETTLED_SECONDS,
        explain=lambda: str(set(state(world).items()) ^ set(before.items())),
    )
    assert state(world) == before


def reconciles(world: Fleet, after: str) -> None:
    """The whole chain works: a new tier becomes Ready and goes.

    Each has a name of its own: what a deleted one left on the cluster goes up to 30 s later.
    """
    probe = tier(f"after-{after}")
    with world.applied(probe):
        world.until_ready(probe, limit=SETTLED_SECONDS)


OF_THE_CONTROL_PLANE = (
    "etcd",
    "apiserver-control",
    "controllers-control",
    "core",
    "provider-kubernetes",
    functions.OURS,
)
OF_EACH_CLUSTER = ("apiserver", "controllers", "scheduler", "kwok", "lws")
PARTS = (*OF_THE_CONTROL_PLANE, *(f"{p}-{c}" for c in (FIRST, SECOND) for p in OF_EACH_CLUSTER))


def test_list_of_parts_is_complete(world: Fleet):
    """All but the stand-in, which serves its own group only."""
    running = {name for name, part in world.rig.parts.parts.items() if part.wanted}
    assert set(PARTS) == running - {"stand-in"}


@pytest.mark.parametrize("name", PARTS)
def test_state_survives_the_kill_of_any_part(world: Fleet, name: str):
    part = world.rig.parts.parts[name]
    part.kill()
    time.sleep(0.5)
    world.rig.parts.tend()
    assert part.alive
    reconciles(world, name)


def test_state_survives_the_kill_of_every_process(world: Fleet):
    """Every process dies at once, with whatever it had not written."""
    for part in world.rig.parts.parts.values():
        part.kill()
    world.rig.parts.tend()
    reconciles(world, "a-power-cut")


def test_the_function_dies_in_the_middle_of_reconciles(world: Fleet):
    probes = [tier(f"mid-{n}") for n in range(3)]
    function = world.rig.parts.parts[functions.OURS]
    with world.applied(*probes):
        for _ in range(3):
            function.kill()
            time.sleep(0.3)
            world.rig.parts.tend()
        for probe in probes:
            world.until_ready(probe, limit=SETTLED_SECONDS)


def test_state_survives_an_unreachable_workload_cluster(world: Fleet, summary: Summary):
    """What is not seen any more is said as that: a status repeats what was seen last.

    The provider looks at what has settled every ten minutes; an edit of its Object makes it look.
    """
    server = world.rig.parts.parts[f"apiserver-{FIRST}"]
    probe = tier("while-away")
    away = time.monotonic()
    server.stop()
    with contextlib.ExitStack() as removal:
        try:
            removal.enter_context(world.applied(probe))
            for document, kind in ((CHAT, "AgentsReady"), (QWEN, "WorkloadsReady")):
                for each in world.objects(document):
                    world.touch(each)
                world.until_condition(document, kind, ("Unknown", "NotObserved"), SETTLED_SECONDS)
                message = world.message(document, kind)
                assert message.startswith("Looks fail since ") and FIRST in message, message
                assert not is_true(world.get(document), "Ready")
            summary.note(f"what is not seen is said after {time.monotonic() - away:.0f} s")
            time.sleep(max(0.0, AWAY_SECONDS + away - time.monotonic()))
            assert not is_true(world.api.again(probe), "Ready")
        finally:
            server.start()
            server.wait()
        world.until_ready(probe, limit=SETTLED_SECONDS)


def test_a_tier_in_use_is_not_deleted(world: Fleet):
    with pytest.raises(Refused, match="in-use by"):
        world.api.delete(CHAT)


def test_lost_node_changes_only_its_agent(world: Fleet, before: State):
    """The one fault that must change pods: the agent of that node, and no other."""
    rig = world.rig
    engines = {p["spec"]["nodeName"] for p in world.pods(FIRST, "default")}
    name = next(f"{FIRST}-gpu-{n}" for n in range(3) if f"{FIRST}-gpu-{n}" not in engines)
    gone = next(p for p in world.agents(FIRST, CHAT) if p["spec"]["nodeName"] == name)
    world.lose_node(FIRST, gpu_node(name))
    rig.until(
        lambda: world.get(CHAT)["status"]["agents"]["desired"] == 2,
        "two are desired",
        SETTLED_SECONDS,
    )
    world.until_ready(CHAT)
    rig.apply_nodes(rig.workload(FIRST), [gpu_node(name)])
    rig.until(
        lambda: world.get(CHAT)["status"]["agents"]["summary"] == "3/3",
        "three again",
        SETTLED_SECONDS,
    )
    before.pop(f"pod {gone['metadata']['name']}")
    new = next(p for p in world.agents(FIRST, CHAT) if p["spec"]["nodeName"] == name)
    before |= {f"pod {k}": v for k, v in identities([new]).items()}


@contextlib.contextmanager
def second_version(world: Fleet) -> Iterator[None]:
    """Another process of the function takes over, as a new revision does, and hands back."""
    rig = world.rig
    (port,) = free_ports(1)
    rig.parts.launch(rig.function_part("function-new", port))
    crossplane.register_function(world.api, functions.OURS, port)
    try:
        yield
    finally:
        crossplane.register_function(world.api, functions.OURS, rig.function_port)
        rig.parts.stop(["function-new"])


def test_a_second_version_rolls_in_and_restarts_no_pod(world: Fleet):
    with second_version(world):
        rig = world.rig
        rig.parts.parts[functions.OURS].stop()
        reconciles(world, "a-new-version")
        touched: list[Manifest] = [world.get(CHAT), world.get(QWEN)]
        for document in touched:
            change = {"metadata": {"annotations": {"example.org/touched": "again"}}}
            world.api.patch(document, change)
        time.sleep(3)
        rig.parts.parts[functions.OURS].start()
        rig.parts.parts[functions.OURS].wait()
