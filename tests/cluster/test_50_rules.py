"""The API server admits a valid document and refuses an invalid one for every CEL rule."""

import copy
from collections.abc import Iterator

import pytest

from tests.cluster import rules, rules_hicache, rules_mooncake, rules_native, rules_nixl
from tests.cluster.documents import API, changed, deployment, gang, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, Refused, load

XRDS = {
    "KVOffloadTier": CHECKOUT / "xrd" / "kvoffloadtier.yaml",
    "InferenceCluster": CHECKOUT / "xrd" / "standalone" / "inferencecluster.yaml",
    "ModelDeployment": CHECKOUT / "xrd" / "standalone" / "modeldeployment.yaml",
}
# Field -> message of the rule that only a fleet has it, and a value.
OF_FLEETS: dict[str, tuple[str, object]] = {
    "rollout": ("rollout may only be set with clusterSelector", {}),
    "removal": ("removal may only be set with clusterSelector", "Keep"),
    "clusterOverrides": ("clusterOverrides may only be set with clusterSelector", []),
}
_ENGINES = "spec.template.spec.engines"
_MEMBER = f"{_ENGINES}.0.members.0"
_LONG, _ODD = {"a" * 320: "b"}, {"no/pe/": "b"}
# (schema path, message) -> a good and a bad ModelDeployment.
DEPLOYMENTS: dict[tuple[str, str], tuple[Manifest, Manifest]] = {
    (
        "template.spec.engines[]",
        "members must be one Standalone, or one Leader and one Worker",
    ): (
        gang("d", "t"),
        changed(gang("d", "t"), f"{_MEMBER}.role", "Worker"),
    ),
    (
        "template.spec.engines[].members[]",
        "worker may only be set when role is Worker",
    ): (
        gang("d", "t"),
        changed(deployment("d", "t"), f"{_MEMBER}.worker", {"nodes": 1}),
    ),
    (
        "template.spec.engines[].members[].template.metadata",
        "labels must not use the reserved prefix modelplane.ai/",
    ): (
        changed(deployment("d", "t"), f"{_MEMBER}.template.metadata", {"labels": {"a": "b"}}),
        changed(
            deployment("d", "t"),
            f"{_MEMBER}.template.metadata",
            {"labels": {"modelplane.ai/x": "b"}},
        ),
    ),
    (
        "template.spec.engines[].members[].template.spec",
        "containers must have exactly one container named engine",
    ): (
        deployment("d", "t"),
        changed(deployment("d", "t"), f"{_MEMBER}.template.spec.containers.0.name", "main"),
    ),
    **{
        (f"template.spec.engines[].members[].template.metadata.{field}", message): (
            changed(deployment("d", "t"), f"{_MEMBER}.template.metadata", {field: {"a": "b"}}),
            changed(deployment("d", "t"), f"{_MEMBER}.template.metadata", {field: bad}),
        )
        for field in ("labels", "annotations")
        for message, bad in (
            ("keys must have at most 317 characters", _LONG),
            ("each key must be a qualified name ([domain/]name)", _ODD),
        )
    },
}


def declared(kind: str) -> set[tuple[str, str]]:
    """Path below the spec, and message, of every rule of an XRD."""
    definition = load(XRDS[kind])[0]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = {(path.removeprefix("spec").lstrip("."), text) for path, text in _rules(schema, "")}
    return {(path, text) for path, text in found if text not in rules.NOT_OF_USERS}


def _rules(schema: Manifest, path: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", []):
        yield path, rule["message"]
    for name, field in schema.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}".lstrip("."))
    if isinstance(schema.get("items"), dict):
        yield from _rules(schema["items"], f"{path}[]")


def cluster_with(settings: Manifest) -> Manifest:
    return {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": "judged"},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "s"}}},
            "kvOffloadTiers": [{"name": "inline"} | settings],
        },
    }


def tier_with(settings: Manifest) -> Manifest:
    document = tier("judged")
    document["spec"] = rules.tier_spec(settings)
    return document


def judge(world: Fleet, good: Manifest, bad: Manifest, message: str) -> None:
    assert world.api.create(good, dry_run=True)["kind"] == good["kind"]
    with pytest.raises(Refused) as refused:
        world.api.create(bad, dry_run=True)
    assert refused.value.code == 422
    assert message in str(refused.value)


TIERS = [
    *rules.documents(),
    *rules_mooncake.documents(),
    *rules_hicache.documents(),
    *rules_native.documents(),
    *rules_nixl.documents(),
]


def row_id(row: tuple) -> str:
    return f"{row[0]}: {row[1]}"


@pytest.mark.parametrize("row", TIERS, ids=row_id)
def test_a_rule_of_a_tier(world: Fleet, row: tuple[str, str, Manifest, Manifest]):
    _, message, good, bad = row
    judge(world, tier_with(good), tier_with(bad), message)
    judge(world, cluster_with(good), cluster_with(bad), message)


@pytest.mark.parametrize("row", DEPLOYMENTS, ids=row_id)
def test_a_rule_of_a_deployment(world: Fleet, row: tuple[str, str]):
    judge(world, *DEPLOYMENTS[row], row[1])


def test_a_tier_names_one_cluster_or_selects_many(world: Fleet):
    selects = tier_with(rules.VALID)
    del selects["spec"]["inferenceClusterRef"]
    neither = copy.deepcopy(selects)
    selects["spec"]["clusterSelector"] = {"matchLabels": {"a": "b"}}
    message = "exactly one of inferenceClusterRef and clusterSelector must be set"
    judge(world, selects, neither, message)
    rows = {"rollout": {"waves": [{}]}, "clusterOverrides": [{"matchLabels": {}, "spec": {}}]}
    waves = {**selects, "spec": {**selects["spec"], **rows}}
    for path in ("clusterSelector", "rollout.waves.0", "clusterOverrides.0"):
        for labels, text in ((_LONG, "at most 317"), (_ODD, "qualified name")):
            judge(world, waves, changed(waves, f"spec.{path}.matchLabels", labels), text)


@pytest.mark.parametrize("field", OF_FLEETS)
def test_a_field_of_a_fleet(world: Fleet, field: str):
    message, value = OF_FLEETS[field]
    selects = tier_with({**rules.VALID, field: value})
    alone = copy.deepcopy(selects)
    del selects["spec"]["inferenceClusterRef"]
    selects["spec"]["clusterSelector"] = {"matchLabels": {"a": "b"}}
    judge(world, selects, alone, message)


def test_cluster_has_exactly_one_source(world: Fleet):
    good = cluster_with(rules.VALID)
    bad = changed(good, "spec.cluster", {"source": "Existing"})
    judge(world, good, bad, "existing must be set when source is Existing")


def test_cluster_of_a_tier_is_immutable(world: Fleet):
    lost = tier("placed", "nowhere")
    moved = {"namespace": "elsewhere", "inferenceClusterRef": {"name": "elsewhere"}}
    assert {*moved, "clusterSelector"} == set(rules.TRANSITIONS)  # the one of test_49_waves.py
    with world.applied(lost):
        for field, value in moved.items():
            with pytest.raises(Refused) as refused:
                world.api.apply(changed(lost, f"spec.{field}", value))
            assert rules.TRANSITIONS[field] in str(refused.value)


MOVED = "inferenceClusterRef cannot be changed: the old cluster would keep its pods"


def test_cluster_of_a_deployment_is_immutable(world: Fleet):
    lost = deployment("placed", "t", "nowhere")
    with world.applied(lost):
        with pytest.raises(Refused) as refused:
            world.api.apply(
                changed(lost, "spec.template.spec.inferenceClusterRef.name", "elsewhere")
            )
        assert MOVED in str(refused.value)


OF_TIERS = {row[:2] for row in TIERS}
ELSEWHERE = {
    *(message for message, _ in OF_FLEETS.values()),
    "exactly one of inferenceClusterRef and clusterSelector must be set",
    "existing must be set when source is Existing",
    *rules.TRANSITIONS.values(),
}


def test_the_table_is_complete_for_tiers():
    left = {
        (path, text)
        for path, text in declared("KVOffloadTier") - OF_TIERS
        if text not in ELSEWHERE and not path.endswith(".matchLabels")
    }
    assert left == set()
    assert OF_TIERS - declared("KVOffloadTier") == set()


def test_the_table_is_complete_for_inline_tiers():
    inline = {
        (path.removeprefix("kvOffloadTiers[]").lstrip("."), text)
        for path, text in declared("InferenceCluster")
        if text not in ELSEWHERE
    }
    assert inline == OF_TIERS


def test_the_table_is_complete_for_deployments():
    assert declared("ModelDeployment") == {*DEPLOYMENTS, ("template.spec", MOVED)}
