"""Every rule over several fields: a document that keeps it, and one that breaks it and no other.

The table must name every rule that any document can meet, so that a new rule comes with its row.
"""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from function.api.base import ApiModel, FieldRule, broken_rules, parse
from function.api.input import Input
from function.api.walk import find_model
from kv_offload.crds.generate import KINDS
from tests.unit.api import hicache_rules, mooncake_rules, native_rules, nixl_rules

HOST = {"host": "r"}
L1 = {"sizeGiB": 8}
ONE = {"role": "Standalone"}
RDMA = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}
PLACE = {"inferenceClusterRef": {"name": "a"}, "name": "a"}
INSIDE = {**PLACE, "backend": "LMCache", "lmcache": {"mode": "InProcess", "inProcess": {}}}
SERVER = {**PLACE, "backend": "LMCache", "lmcache": {"l1": L1}}
STORE = {"store": {"sizeGiB": 8}}
BROUGHT = {"repository": "registry/x", "tag": "v1"}
POOL = {**PLACE, "backend": "Mooncake", "mooncake": STORE}
AGENTS_ONLY = {
    "gpuVisibility": {"source": "CDI"},
    "nodes": {"selector": {"a": "b"}},
    "monitoring": {},
}

# (model, words of the rule's message, documents that keep it, documents that break only it)
ROWS: list[tuple[str, str, list[Any], list[Any]]] = [
    *mooncake_rules.ROWS,
    *hicache_rules.ROWS,
    *native_rules.ROWS,
    *nixl_rules.ROWS,
    (
        "Events",
        "replayPort must differ from port",
        [{}, {"replayPort": 5558}],
        [{"replayPort": 5557}, {"port": 6000, "replayPort": 6000}],
    ),
    (
        "KVOffloadTierSpec",
        "exactly one of inferenceClusterRef",
        [{"inferenceClusterRef": {"name": "a"}}, {"clusterSelector": {"matchLabels": {}}}],
        [{}, {"inferenceClusterRef": {"name": "a"}, "clusterSelector": {"matchLabels": {}}}],
    ),
    *(
        (
            "KVOffloadTierSpec",
            f"{field} may only be set with clusterSelector",
            [{"clusterSelector": {"matchLabels": {}}, field: value}],
            [{"inferenceClusterRef": {"name": "a"}, field: value}],
        )
        for field, value in {"rollout": {}, "removal": "Keep", "clusterOverrides": []}.items()
    ),
    *(
        (
            model,
            "namespace must not be",
            [{**SERVER}, {**SERVER, "namespace": "kv"}],
            [{**SERVER, "namespace": "kube-system"}, {**SERVER, "namespace": "default"}],
        )
        for model in ("KVOffloadTierSpec", "InlineTier")
    ),
    (
        "Monitoring",
        "namespaceLabels must have",
        [{}, {"namespaceLabels": {"a": "b"}}],
        [{"namespaceLabels": {}}],
    ),
    (
        "Evictor",
        "lowPercent must not be larger",
        [{}, {"highPercent": 50, "lowPercent": 50}],
        [{"highPercent": 89}, {"lowPercent": 96}],
    ),
    *(
        (
            "MooncakePorts",
            f"{name}First to {name}Last must not cover",
            [{}, {f"{name}First": 20000, f"{name}Last": 20031}],
            [{f"{name}First": first, f"{name}Last": first + 31} for first in (8060, 2370, 50040)],
        )
        for name in ("transfer", "segment")
    ),
    *(
        (
            model,
            "rdma may not be set: LMCache",
            [{**INSIDE}, {**INSIDE, "rdma": {"source": "None"}}],
            [{**INSIDE, "rdma": RDMA}],
        )
        for model in ("KVOffloadTierSpec", "InlineTier")
    ),
    *(
        (
            model,
            f"{field} may not be set: mode InProcess",
            [{**INSIDE}, {**SERVER, field: value}],
            [{**INSIDE, field: value}],
        )
        for model in ("KVOffloadTierSpec", "InlineTier")
        for field, value in AGENTS_ONLY.items()
    ),
    *(
        (
            model,
            f"payload may not be set: {why}",
            [{**PLACE, "backend": backend, field: {}}, {**POOL, "payload": BROUGHT}],
            [{**PLACE, "backend": backend, field: {}, "payload": BROUGHT}],
        )
        for model in ("KVOffloadTierSpec", "InlineTier")
        for backend, field, why in (
            ("Native", "native", "Native"),
            ("NIXL", "nixl", "the payload image"),
            ("HiCache", "hicache", "only hicache.storage.mooncake"),
        )
    ),
    (
        "Payload",
        "exactly one of tag and digest",
        [{"tag": "v1"}, {"digest": "sha256:0"}],
        [{}, {"tag": "v1", "digest": "sha256:0"}],
    ),
    *(
        (
            model,
            "gpuVisibility may not be set: Mooncake",
            [{**POOL}],
            [{**POOL, "gpuVisibility": {"source": "CDI"}}],
        )
        for model in ("KVOffloadTierSpec", "InlineTier")
    ),
    *(
        (
            model,
            "rdma may not be set: mooncake.protocol",
            [
                {**POOL},
                {**POOL, "rdma": RDMA, "mooncake": {**STORE, "protocol": "rdma"}},
            ],
            [{**POOL, "rdma": RDMA}],
        )
        for model in ("KVOffloadTierSpec", "InlineTier")
    ),
    (
        "AllowedNamespaces",
        "names must list",
        [{}, {"from": "All"}, {"from": "Names", "names": ["a"]}],
        [{"from": "Names"}, {"names": ["a"]}, {"from": "All", "names": ["a"]}],
    ),
    (
        "Toleration",
        "key must be set",
        [{"operator": "Exists"}, {"key": "a"}, {"operator": "Equal", "key": "a"}],
        [{}, {"operator": "Equal"}],
    ),
    (
        "Toleration",
        "value may only",
        [{"key": "a", "value": "b"}, {"operator": "Exists", "key": "a"}],
        [{"operator": "Exists", "value": "b"}],
    ),
    (
        "Toleration",
        "tolerationSeconds may only",
        [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 0}, {"key": "a"}],
        [
            {"key": "a", "tolerationSeconds": 1},
            {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1},
        ],
    ),
    (
        "RDMA",
        "devices may only",
        [{"source": "None"}, {"source": "DRA", "dra": {}, "devices": ["mlx5_0"]}],
        [{"source": "None", "devices": ["mlx5_0"]}],
    ),
    (
        "MooncakeSpec",
        "controlPlaneNodes may not",
        [
            {"external": {"masterAddress": "m:1"}},
            {"store": {"sizeGiB": 1}, "controlPlaneNodes": {"selector": {"a": "b"}}},
        ],
        [
            {"external": {"masterAddress": "m:1"}, "controlPlaneNodes": {"tolerations": []}},
            {"external": {"masterAddress": "m:1"}, "controlPlaneNodes": {"selector": {"a": "b"}}},
            {"external": {"masterAddress": "m:1"}, "controlPlaneNodes": {"priorityClassName": "p"}},
        ],
    ),
    (
        "RDMA",
        "podAnnotations may only",
        [{"source": "None"}, {"source": "DRA", "dra": {}, "podAnnotations": {"a": "b"}}],
        [{"source": "None", "podAnnotations": {"a": "b"}}],
    ),
    (
        "AgentImage",
        "version must be set",
        [{}, {"tag": "v1"}, {"digest": "sha256:0", "version": "1"}],
        [{"digest": "sha256:0"}],
    ),
    (
        "PodSpec",
        "exactly one container named engine",
        [{"containers": [{"name": "engine"}, {"name": "x"}]}],
        [
            {"containers": [{"name": "x"}]},
            {"containers": [{"name": "engine"}, {"name": "engine"}]},
        ],
    ),
    (
        "PodMetadata",
        "labels must not use",
        [{}, {"labels": {"a": "b"}}, {"annotations": {"modelplane.ai/x": "y"}}],
        [{"labels": {"a": "b", "modelplane.ai/x": "y"}}],
    ),
    (
        "Member",
        "worker may only",
        [{}, {"role": "Worker"}, {"role": "Worker", "worker": {"nodes": 2}}],
        [{"worker": {"nodes": 2}}, {"role": "Leader", "worker": {"nodes": 2}}],
    ),
    (
        "EngineSpec",
        "members must be one Standalone",
        [
            {"members": [{}]},
            {"members": [ONE]},
            {"members": [{"role": "Worker"}, {"role": "Leader"}]},
        ],
        [
            {"members": [{"role": "Leader"}]},
            {"members": [{"role": "Worker"}]},
            {"members": [ONE, ONE]},
            {"members": [{"role": "Leader"}, ONE]},
            {"members": [{"role": "Leader"}, {"role": "Leader"}]},
        ],
    ),
    (
        "PodTemplatePath",
        "exactly one of resource and kind",
        [{"kind": "A"}, {"resource": "a"}],
        [{}, {"kind": "A", "resource": "a"}],
    ),
    (
        "Input",
        "engine must be set",
        [{}, {"engine": "vLLM"}, {"engine": "vLLM", "engineVersion": "1"}],
        [{"engineVersion": "1"}],
    ),
    (
        "InProcessRemote",
        "serde must be naive when redis.authSecret is set",
        [
            {"type": "Redis", "serde": "cachegen", "redis": {}},
            {"type": "Redis", "serde": "naive", "redis": {"authSecret": {}}},
        ],
        [{"type": "Redis", "serde": "cachegen", "redis": {"authSecret": {}}}],
    ),
    (
        "LMCacheSpec",
        "l2 may only",
        [{"l1": L1, "l2": [{}]}, {"mode": "InProcess", "inProcess": {}}],
        [{"mode": "InProcess", "inProcess": {}, "l2": [{}]}],
    ),
    (
        "LMCacheSpec",
        "l1 may only",
        [{"l1": L1}],
        [{"mode": "InProcess", "inProcess": {}, "l1": L1}],
    ),
    (
        "Monitoring",
        "enginePorts may only",
        [{}, {"podMonitor": True, "enginePorts": [8000]}, {"podMonitor": True}],
        [{"enginePorts": [8000]}],
    ),
    (
        "LMCacheL1",
        "initialSizeGiB must not",
        [{"sizeGiB": 1}, {"sizeGiB": 30, "initialSizeGiB": 30}],
        [{"sizeGiB": 30, "initialSizeGiB": 31}],
    ),
    (
        "LMCacheL1",
        "initialSizeGiB may not",
        [{"sizeGiB": 30, "hugepages": True}],
        [{"sizeGiB": 30, "initialSizeGiB": 30, "hugepages": True}],
    ),
    (
        "LMCacheRegistration",
        "graceSeconds must",
        [{}, {"reapSeconds": 60, "graceSeconds": 60}],
        [{"reapSeconds": 60, "graceSeconds": 59}, {"graceSeconds": 30}],
    ),
    (
        "L2Level",
        "serde may not",
        [{"type": "Raw", "raw": {}}, {"type": "Disk", "disk": {}, "serde": {}}],
        [{"type": "Raw", "raw": {}, "serde": {}}],
    ),
    (
        "Disk",
        "exactly one of hostPath",
        [{"hostPath": {}}, {"ephemeral": {}}],
        [{}, {"hostPath": {}, "ephemeral": {}}],
    ),
    (
        "SharedFileSystem",
        "exactly one of claimName",
        [{"claimName": "c"}, {"storageClassName": "s"}],
        [{}, {"claimName": "c", "storageClassName": "s"}],
    ),
    ("Redis", "exactly one of host", [HOST, {"managed": {}}], [{}, {**HOST, "managed": {}}]),
    (
        "Redis",
        "authSecret must be set",
        [HOST, {**HOST, "authSecret": {}}, {**HOST, "authSecret": {}, "username": "u"}],
        [{**HOST, "username": "u"}],
    ),
    (
        "Redis",
        "username may only",
        [{**HOST, "authSecret": {}, "username": "u"}],
        [{"managed": {}, "authSecret": {}, "username": "u"}],
    ),
    (
        "Redis",
        "keyPrefix may only",
        [HOST, {**HOST, "keyPrefix": "fleet"}],
        [{"managed": {}, "keyPrefix": "fleet"}],
    ),
    (
        "Valkey",
        "database may only",
        [{}, {"cluster": True}, {"database": 1}],
        [{"cluster": True, "database": 1}],
    ),
]


def models() -> dict[str, type[ApiModel]]:
    """Every model that a document can hold, by name."""
    found: dict[str, type[ApiModel]] = {}

    def visit(model: type[BaseModel]) -> None:
        if model.__name__ in found:
            assert found[model.__name__] is model, f"two models are named {model.__name__}"
            return
        assert issubclass(model, ApiModel)
        found[model.__name__] = model
        for info in model.model_fields.values():
            if below := find_model(info.annotation):
                visit(below)

    for kind in KINDS:
        visit(kind.spec)
        visit(kind.status)
    visit(Input)
    return found


MODELS = models()


def rules() -> Iterator[tuple[type[ApiModel], FieldRule]]:
    for model in MODELS.values():
        for base in model.__mro__:
            for rule in vars(base).get("rules", ()):
                yield model, rule


def messages(model: str, document: Any) -> list[str]:
    """What a document breaks in the object itself, not below it."""
    found = broken_rules(MODELS[model], document, frozenset())
    return [message for loc, message in found if len(loc) <= 1]


# A union's rules are made by one function, so their documents are too.
UNION = re.compile(r"^(\w+) (must|may only) be set when (\w+) is (\w+)$")


def union_documents(model: type[ApiModel], found: re.Match[str]) -> tuple[Any, Any]:
    """(a document that keeps a union's rule, one that breaks it)."""
    field, verb, tag, value = found.groups()
    fields = {info.alias: info for info in model.model_fields.values()}
    other = next((v for v in get_args(fields[tag].annotation) if v != value), "another")
    broke = {tag: value} if verb == "must" else {tag: other, field: {}}
    return {tag: value, field: {}}, broke


@pytest.mark.parametrize(("model", "words", "good", "bad"), ROWS, ids=lambda v: str(v)[:40])
def test_rule_accepts_and_rejects_its_documents(
    model: str, words: str, good: list[Any], bad: list[Any]
) -> None:
    for document in good:
        assert not [m for m in messages(model, document) if m.startswith(words) or words in m]
    for document in bad:
        [message] = messages(model, document)
        assert words in message, document


def test_every_rule_has_its_documents() -> None:
    missing = []
    for model, rule in rules():
        if rule.holds is None or any(
            m == model.__name__ and w in rule.message for m, w, *_ in ROWS
        ):
            continue
        found = UNION.match(rule.message)
        if not found:
            missing.append(f"{model.__name__}: {rule.message}")
            continue
        good, bad = union_documents(model, found)
        assert rule.message not in messages(model.__name__, good)
        assert rule.message in messages(model.__name__, bad)
    assert missing == []


def test_messages_name_a_field_of_the_object() -> None:
    for model, rule in rules():
        names = {info.alias for info in model.model_fields.values()}
        assert names & set(re.findall(r"\w+", rule.message)), rule.message
        assert not rule.field or rule.field in names, rule
        assert "\n" not in rule.message and len(rule.message) < 200


def test_only_transitions_are_left_to_the_api_server() -> None:
    for _, rule in rules():
        assert (rule.holds is None) == ("oldSelf" in rule.cel), rule.message


def test_rule_over_an_invalid_field_is_skipped() -> None:
    document = {"source": "Nonne", "devicePlugin": {"resourceName": "x", "count": 0}, "devices": 1}
    _, problems = parse(MODELS["RDMA"], document)
    assert [str(p) for p in problems] == [
        "devicePlugin.count: must be at least 1, not 0",
        "devices: must be a list, not 1",
        'source: must be one of None, DevicePlugin, DRA, not "Nonne"; did you mean None?',
    ]
