"""An edit of the cache identity goes through: of a parent's replicas, and of neighbours."""

import contextlib
import json
from collections.abc import Iterator, Sequence

import pytest

from tests.cluster.documents import (
    API,
    CONTAINER,
    FIRST,
    USAGE,
    changed,
    replica_group,
    requesting,
    sglang,
    tier,
)
from tests.cluster.expect import Fleet, engine, flag
from tests.cluster.rig.kube import Manifest

_ARGS = f"{CONTAINER}.args"


# SGLang shares the node's memory with its agent.
CHAT = tier("rolling", lmcache={"ipc": "SharedMemory", "l1": {"sizeGiB": 200}})
GROUP = sglang(replica_group("siblings", "rolling", 2), "spec.template", "some/siblings")
KEYED = replica_group("keyed", "rolling", 2)
POOL = tier("rolling-pool", backend="Mooncake", mooncake={"store": {"sizeGiB": 64}})
for field in ("gpuVisibility", "lmcache"):
    del POOL["spec"][field]
POOLED = replica_group("pooled", "rolling-pool", 2)
# Neighbours serve one model, and are nobody's replicas.
NEIGHBOURS = [
    sglang(requesting(name, "rolling"), "spec", "some/shared")
    for name in ("neighbour-a", "neighbour-b")
]


@pytest.fixture(scope="module", autouse=True)
def running(world: Fleet, standin: None) -> Iterator[None]:
    documents = (CHAT, POOL, GROUP, KEYED, POOLED, *NEIGHBOURS)
    with world.applied(*documents):
        for document in documents:
            world.until_ready(document, limit=60)
        yield


def edited(document: Manifest, path: str, *more: str) -> Manifest:
    """With further arguments of the engine, and so another cache identity."""
    where = f"{path}.{_ARGS}"
    found = document
    for step in where.split("."):
        found = found[int(step) if step.isdigit() else step]
    return changed(document, where, [*found, *more])


def identities(world: Fleet, model: str) -> list[str]:
    """The identities that the Usages of a model string speak of, waiting ones too."""
    rows = [
        row
        for each in world.api.list(USAGE, "Usage")
        for row in json.loads(
            each["metadata"]["annotations"].get("modelplane.ai/kv-offload-shares", "[]")
        )
    ]
    return sorted(identity for name, identity, *_ in rows if name == model)


def until_identities(
    world: Fleet, model: str, users: int, different: int, other_than: Sequence[str] = ()
) -> None:
    """There are so many: core writes a Usage after the engine's Object."""

    def there() -> bool:
        found = identities(world, model)
        return (len(found), len(set(found))) == (users, different) and found != other_than

    explain = lambda: str(identities(world, model))  # noqa: E731
    world.rig.until(there, f"{users} users of {model}, {different} identities", explain=explain)


def is_wired(found: Manifest) -> bool:
    words = engine(found)["args"]
    return "--enable-lmcache" in words or "--kv-transfer-config" in words


def dtypes(world: Fleet, start: str) -> list[str]:
    """What the engines are started with, wired ones only."""
    return sorted(
        flag(engine(found), "--dtype")
        for key, found in world.remote(FIRST).items()
        if key.startswith(f"Deployment default/{start}") and is_wired(found)
    )


def until_rolled(world: Fleet, documents: list[Manifest], start: str, dtype: str) -> None:
    """Every engine runs the edit and is wired, and every condition says so."""
    names = [d["metadata"]["name"] for d in documents]

    def rolled() -> bool:
        found = {world.condition(d, "KVOffloadReady") for d in documents}
        return found == {("True", "Wired")} and dtypes(world, start) == [dtype] * len(names)

    world.rig.until(
        rolled,
        f"{names} run with {dtype}",
        60,
        explain=lambda: "\n".join(map(world.explain, documents)),
    )


@pytest.mark.parametrize(
    "group", [GROUP, KEYED, POOLED], ids=["LMCache-SGLang", "LMCache-vLLM", "Mooncake"]
)
def test_replicas_of_one_parent_change_their_identity(world: Fleet, group: Manifest):
    name = group["metadata"]["name"]
    replicas = world.composed(group, API, "ModelReplica")
    before = identities(world, f"some/{name}")
    assert len(before) == 2 and len(set(before)) == 1
    world.api.apply(edited(group, "spec.template", "--dtype=float16"))
    until_rolled(world, replicas, name, "float16")
    until_identities(world, f"some/{name}", 2, 1, other_than=before)
    world.until_ready(group, limit=60)


def test_a_parent_scales_up_in_the_same_edit(world: Fleet):
    larger = changed(edited(GROUP, "spec.template", "--dtype=bfloat16"), "spec.replicas", 3)
    world.api.apply(larger)
    world.rig.until(lambda: len(world.composed(GROUP, API, "ModelReplica")) == 3, "there are 3")
    replicas = world.composed(GROUP, API, "ModelReplica")
    until_rolled(world, replicas, "siblings", "bfloat16")
    until_identities(world, "some/siblings", 3, 1)
    world.until_ready(GROUP, limit=60)


def test_replicas_of_one_parent_may_change_one_by_one(world: Fleet):
    """As with a parent that rolls its replicas one by one: each is wired as itself."""
    first, *others = world.composed(GROUP, API, "ModelReplica")
    args = first["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["args"]
    engines = changed(first, f"spec.{_ARGS}", [*args, "--kv-cache-dtype=fp8_e5m2"])["spec"][
        "engines"
    ]
    name = first["metadata"]["name"]
    with paused(world, GROUP):
        world.api.patch(first, {"spec": {"engines": engines}})
        world.rig.until(lambda: fp8(world) == [name], "it runs with the edit, and is wired")
        until_rolled(world, [first, *others], "siblings", "bfloat16")
        until_identities(world, "some/siblings", 3, 2)
    world.rig.until(lambda: fp8(world) == [], "it is as its parent says")
    until_rolled(world, [first, *others], "siblings", "bfloat16")


@contextlib.contextmanager
def paused(world: Fleet, document: Manifest) -> Iterator[None]:
    """A composite that core leaves alone: also the reconcile that was under way has ended."""
    world.api.patch(document, {"metadata": {"annotations": {"crossplane.io/paused": "true"}}})
    try:
        world.until_condition(document, "Synced", ("False", "ReconcilePaused"))
        yield
    finally:
        world.api.patch(document, {"metadata": {"annotations": {"crossplane.io/paused": None}}})


def fp8(world: Fleet) -> list[str]:
    """The siblings that run wired with a cache of 8 bits."""
    return [
        found["metadata"]["name"].removesuffix("-main")
        for key, found in world.remote(FIRST).items()
        if key.startswith("Deployment default/siblings")
        and flag(engine(found), "--kv-cache-dtype") == "fp8_e5m2"
        and is_wired(found)
    ]


def test_consumers_of_one_model_change_independently(world: Fleet):
    """Under one model string, and in nobody's way: their keys hold the identity."""
    one = edited(NEIGHBOURS[0], "spec", "--dtype=float16")
    world.api.apply(one)
    world.rig.until(lambda: dtypes(world, "neighbour") == ["", "float16"], "one runs its edit")
    for document in NEIGHBOURS:
        world.until_condition(document, "KVOffloadReady", ("True", "Wired"))
    until_identities(world, "some/shared", 2, 2)
    world.api.apply(edited(NEIGHBOURS[1], "spec", "--dtype=float16"))
    until_rolled(world, NEIGHBOURS, "neighbour", "float16")
    until_identities(world, "some/shared", 2, 1)
