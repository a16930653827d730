"""Whole documents in, the whole list of problems out."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.api.backends import SPECS, field_name
from function.api.base import ApiModel, camel, parse
from function.api.cluster import InferenceClusterSpec
from function.api.deployment import ModelDeploymentSpec
from function.api.input import Input
from function.api.placement import GPUVisibility
from function.api.tier import KVOffloadTierSpec

LMCACHE = {"l1": {"sizeGiB": 40}}
BACKENDS = ", ".join(SPECS)
OF_A_TIER = [
    *(
        "allowedNamespaces",
        "backend",
        "events",
        "gpuVisibility",
        "image",
        "monitoring",
        "name",
        "observe",
    ),
    *(
        "namespace",
        "nodes",
        "payload",
        "rdma",
        "readiness",
        "shareDeclaredIdentities",
        "startupTimeoutSeconds",
        "upgradePolicy",
        "wiring",
    ),
]
TIER: dict[str, Any] = {
    "inferenceClusterRef": {"name": "prod"},
    "backend": "LMCache",
    "lmcache": LMCACHE,
}


def member(**over: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "engine", "image": "v"}]}}} | over


def deployment(*engines: dict[str, Any], **over: Any) -> dict[str, Any]:
    spec = {"inferenceClusterRef": {"name": "prod"}, "engines": list(engines)}
    return {"replicas": 1, "template": {"spec": spec | over}}


# (name, model, document, problems as people read them)
CASES: list[tuple[str, type[ApiModel], Any, list[str]]] = [
    ("a tier", KVOffloadTierSpec, TIER, []),
    ("the composite's own machinery", KVOffloadTierSpec, TIER | {"crossplane": {"x": 1}}, []),
    (
        "numbers that went through protobuf",
        KVOffloadTierSpec,
        TIER | {"startupTimeoutSeconds": 600.0, "lmcache": {"l1": {"sizeGiB": 200.0}}},
        [],
    ),
    (
        "nulls are absent",
        KVOffloadTierSpec,
        TIER | {"clusterSelector": None, "monitoring": None, "namespace": None},
        [],
    ),
    (
        "nothing at all",
        KVOffloadTierSpec,
        {},
        [
            "spec: exactly one of inferenceClusterRef and clusterSelector must be set",
            "spec.backend: must be set",
        ],
    ),
    (
        "not an object",
        KVOffloadTierSpec,
        ["x"],
        ["spec: must be an object, not a list"],
    ),
    (
        "an unknown backend",
        KVOffloadTierSpec,
        TIER | {"backend": "Redis"},
        [f'spec.backend: must be one of {BACKENDS}, not "Redis"'],
    ),
    (
        "a misspelt backend",
        KVOffloadTierSpec,
        TIER | {"backend": "lmcache"},
        [f'spec.backend: must be one of {BACKENDS}, not "lmcache"; did you mean LMCache?'],
    ),
    (
        "a backend without its object",
        KVOffloadTierSpec,
        {"inferenceClusterRef": {"name": "prod"}, "backend": "LMCache"},
        ["spec: lmcache must be set when backend is LMCache"],
    ),
    (
        "the object of another backend",
        KVOffloadTierSpec,
        TIER | {"mooncake": {"store": {"sizeGiB": 8}}},
        ["spec.mooncake: mooncake may only be set when backend is Mooncake"],
    ),
    (
        "both cluster references",
        KVOffloadTierSpec,
        TIER | {"clusterSelector": {"matchLabels": {}}},
        ["spec: exactly one of inferenceClusterRef and clusterSelector must be set"],
    ),
    (
        "sizes, units and types, all said at once",
        KVOffloadTierSpec,
        {
            "inferenceClusterRef": {"nam": "prod"},
            "backend": "LMCache",
            "lmcache": {
                "chunkTokens": 100,
                "l1": {"sizeGib": 40},
                "l2": [
                    {"name": "nvme", "type": "Disk", "disk": {"sizeGiB": 0, "hostPath": {}}},
                    {"name": "nvme", "type": "Disc", "disk": {"sizeGiB": "40Gi", "ephemeral": {}}},
                    {"name": "x", "type": "Redis", "redis": {"host": "r", "authSecret": {}}},
                ],
            },
            "startupTimeoutSeconds": 0.5,
        },
        [
            "spec.inferenceClusterRef.nam: unknown field; did you mean name?",
            "spec.inferenceClusterRef.name: must be set",
            "spec.lmcache.chunkTokens: must be a multiple of 16, not 100",
            "spec.lmcache.l1.sizeGiB: must be set",
            "spec.lmcache.l1.sizeGib: unknown field; did you mean sizeGiB?",
            "spec.lmcache.l2[0].disk.hostPath.path: must be set",
            "spec.lmcache.l2[0].disk.sizeGiB: must be at least 1, not 0",
            'spec.lmcache.l2[1].disk.sizeGiB: must be an integer, not "40Gi"',
            "spec.lmcache.l2[1].type: must be one of Disk, SharedFileSystem, Redis, Valkey, S3, "
            'NIXL, Raw, not "Disc"; did you mean Disk?',
            'spec.lmcache.l2[1]: name "nvme" is already used by l2[0]',
            "spec.lmcache.l2[2].redis.authSecret.key: must be set",
            "spec.lmcache.l2[2].redis.authSecret.name: must be set",
            "spec.startupTimeoutSeconds: must be an integer, not 0.5",
        ],
    ),
    (
        "a union's object that belongs to another type",
        KVOffloadTierSpec,
        TIER
        | {
            "gpuVisibility": {"source": "CDI", "runtimeClass": {"name": "nvidia"}},
            "rdma": {"source": "DRA", "devicePlugin": {"resourceName": "rdma/hca"}},
        },
        [
            "spec.gpuVisibility.runtimeClass: runtimeClass may only be set when source is "
            "RuntimeClass",
            "spec.rdma: dra must be set when source is DRA",
            "spec.rdma: rdma may not be set: LMCache does not use RDMA",
            "spec.rdma.devicePlugin: devicePlugin may only be set when source is DevicePlugin",
        ],
    ),
    (
        "snake case is not accepted beside camel case",
        KVOffloadTierSpec,
        TIER | {"startup_timeout_seconds": 60},
        ["spec.startup_timeout_seconds: unknown field; did you mean startupTimeoutSeconds?"],
    ),
    (
        "maps: keys and values",
        KVOffloadTierSpec,
        TIER | {"nodes": {"selector": {"a b": "x", "pool": "-", "n": 5}}},
        [
            'spec.nodes.selector["a b"]: must be a qualified name ([domain/]name), not "a b"',
            "spec.nodes.selector.n: must be a string, not 5; write it in quotes",
            "spec.nodes.selector.pool: must be a label value (letters, digits, -, _ and ., a "
            'letter or digit at each end), not "-"',
        ],
    ),
    (
        "an image with a tag in its repository, and a digest without a version",
        KVOffloadTierSpec,
        TIER
        | {
            "image": {
                "repository": "lmcache/standalone:v0.5.6",
                "digest": "sha256:" + "0" * 64,
            }
        },
        [
            "spec.image.repository: must be an image repository without tag or digest (they have "
            'fields of their own), not "lmcache/standalone:v0.5.6"',
            "spec.image.version: version must be set when digest is set: a digest does not show "
            "the version",
        ],
    ),
    ("a percentage", KVOffloadTierSpec, TIER | {"upgradePolicy": {"maxUnavailable": "10%"}}, []),
    (
        "neither a number nor a percentage",
        KVOffloadTierSpec,
        TIER | {"upgradePolicy": {"maxUnavailable": True}},
        [
            "spec.upgradePolicy.maxUnavailable: must be a whole number of at least 1 or a "
            "percentage such as 10%, not true"
        ],
    ),
    (
        "a cluster with tiers of one name",
        InferenceClusterSpec,
        {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "k"}}},
            "kvOffloadTiers": [
                {"name": "chat", "backend": "LMCache", "lmcache": LMCACHE},
                {"name": "chat", "backend": "LMCache", "lmcache": {"l1": {"sizeGiB": -1}}},
                {"name": "x", **TIER},
            ],
        },
        [
            'spec.kvOffloadTiers[1]: name "chat" is already used by kvOffloadTiers[0]',
            "spec.kvOffloadTiers[1].lmcache.l1.sizeGiB: must be at least 1, not -1",
            "spec.kvOffloadTiers[2].inferenceClusterRef: unknown field; known here: "
            + ", ".join(sorted({*OF_A_TIER, *map(field_name, SPECS)})),
        ],
    ),
    (
        "Modelplane's other sources are not ours",
        InferenceClusterSpec,
        {"cluster": {"source": "GKE", "gke": {}}},
        [
            "spec.cluster.gke: unknown field; known here: existing, source",
            'spec.cluster.source: must be Existing, not "GKE"',
        ],
    ),
    (
        "a deployment, with any field of a PodSpec",
        ModelDeploymentSpec,
        deployment(
            {
                "name": "vllm",
                "members": [
                    {
                        "template": {
                            "metadata": {"annotations": {"modelplane.ai/kv-offload-tier": "chat"}},
                            "spec": {
                                "hostIPC": True,
                                "containers": [
                                    {
                                        "name": "engine",
                                        "image": "vllm/vllm-openai:v0.33.0",
                                        "ports": [{"containerPort": 8000.0}],
                                    },
                                    {"name": "side", "image": "s"},
                                ],
                            },
                        }
                    }
                ],
            }
        ),
        [],
    ),
    (
        "engines that are no serving unit",
        ModelDeploymentSpec,
        deployment(
            {"name": "a", "members": [member(role="Leader")]},
            {
                "name": "a",
                "members": [
                    member(worker={"nodes": 2}),
                    {
                        "template": {
                            "metadata": {"labels": {"modelplane.ai/x": "y"}},
                            "spec": {"containers": [{"name": "vllm", "image": "v"}]},
                        }
                    },
                ],
            },
            kvOffloadTierRef={"name": "chat", "policy": "required"},
        ),
        [
            'spec.template.spec.engines[1]: name "a" is already used by engines[0]',
            "spec.template.spec.engines[0].members: members must be one Standalone, or one Leader "
            "and one Worker",
            "spec.template.spec.engines[1].members: members must be one Standalone, or one Leader "
            "and one Worker",
            "spec.template.spec.engines[1].members[0].worker: worker may only be set when role is "
            "Worker",
            "spec.template.spec.engines[1].members[1].template.metadata.labels: labels must not "
            "use the reserved prefix modelplane.ai/",
            "spec.template.spec.engines[1].members[1].template.spec.containers: containers must "
            "have exactly one container named engine",
            "spec.template.spec.kvOffloadTierRef.policy: must be one of Required, Optional, Off, "
            'not "required"; did you mean Required?',
        ],
    ),
    (
        "an Input",
        Input,
        {
            "apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1",
            "kind": "Input",
            "mode": "Compose",
            "engineImages": {"vllm-openai": {"engine": "vLLM", "entrypoint": ["vllm", "serve"]}},
            "paths": [{"kind": "RoleBasedGroup", "path": "spec.roles[*].template"}],
        },
        [],
    ),
    (
        "a broken Input",
        Input,
        {
            "kind": "Input",
            "mode": "wire",
            "engineVersion": "0.33.0",
            "engineImages": {"x": {"engine": "TGI"}},
            "paths": [{"kind": "A", "resource": "b", "path": ".spec"}],
        },
        [
            "spec.engine: engine must be set when engineVersion is set",
            'spec.engineImages.x.engine: must be one of vLLM, SGLang, not "TGI"',
            'spec.mode: must be one of Wire, Compose, not "wire"; did you mean Wire?',
            "spec.paths[0]: exactly one of resource and kind must be set",
            "spec.paths[0].path: must be a field path such as spec.template or "
            'spec.groups[*].template, not ".spec"',
        ],
    ),
]


@pytest.mark.parametrize(
    ("model", "document", "wanted"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_all_problems_at_once(model: type[ApiModel], document: Any, wanted: list[str]) -> None:
    before = copy.deepcopy(document)
    parsed, problems = parse(model, document, "spec")
    assert sorted(str(problem) for problem in problems) == sorted(wanted)
    assert (parsed is None) == bool(wanted)
    assert document == before


def test_without_a_root_paths_start_at_the_field() -> None:
    assert [str(p) for p in parse(Input, {"mode": 1})[1]] == [
        "mode: must be one of Wire, Compose, not 1"
    ]


def test_defaults_are_filled_in_and_written_out() -> None:
    spec, problems = parse(KVOffloadTierSpec, TIER, "spec")
    assert problems == [] and spec is not None
    written = spec.dump()
    written.pop("lmcache")
    assert written == {
        "allowedNamespaces": {"from": "Same", "names": []},
        "backend": "LMCache",
        "image": {"pullPolicy": "IfNotPresent", "pullSecrets": []},
        "inferenceClusterRef": {"name": "prod"},
        "namespace": "kv-offload-system",
        "nodes": {"selector": {}},
        "rdma": {"source": "None", "podAnnotations": {}, "devices": []},
        "readiness": {"minAvailable": "90%", "minNodes": 1},
        "shareDeclaredIdentities": False,
        "startupTimeoutSeconds": 300,
        "upgradePolicy": {"type": "RollingUpdate", "maxUnavailable": 1},
        "wiring": {"update": "OnChange", "maxUnavailable": 1},
    }
    assert spec.settings is spec.lmcache  # type: ignore[attr-defined]
    visibility = GPUVisibility(source="CDI")
    assert visibility.cdi_or_default.device == "management.nvidia.com/gpu=all"
    assert visibility.dra_or_default.device_class_name == "gpu.nvidia.com"


def test_dumped_document_parses_equal() -> None:
    for _, model, document, wanted in CASES:
        if not wanted:
            parsed, _ = parse(model, document)
            assert parsed is not None
            assert parse(model, parsed.dump()) == (parsed, [])


def test_pod_specs_pass_through_with_whole_numbers() -> None:
    document = next(c[2] for c in CASES if c[0].startswith("a deployment, with any"))
    parsed, _ = parse(ModelDeploymentSpec, document)
    assert parsed is not None
    container = parsed.dump()["template"]["spec"]["engines"][0]["members"][0]["template"]["spec"]
    assert container["containers"][0]["ports"] == [{"containerPort": 8000}]
    assert container["hostIPC"] is True


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("size_gib", "sizeGiB"),
        ("from_", "from"),
        ("l1", "l1"),
        ("kv_offload_tiers", "kvOffloadTiers"),
    ],
)
def test_field_names_are_camel_case(name: str, wanted: str) -> None:
    assert camel(name) == wanted


SCALARS = st.sampled_from(
    [None, True, 0, -1, 3, 0.5, float("nan"), "", "x", "Names", "CDI", "None"]
)
KEYS = st.sampled_from(["name", "backend", "from", "source", "names", "existing", "x"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
KNOWN = [
    *("allowedNamespaces", "backend", "clusterSelector", "gpuVisibility", "image", "lmcache"),
    *("inferenceClusterRef", "monitoring", "namespace", "nodes", "rdma", "upgradePolicy"),
]


@given(st.dictionaries(st.sampled_from(KNOWN), JSON, max_size=5))
def test_malformed_documents_give_problems_not_tracebacks(document: dict[str, Any]) -> None:
    parsed, problems = parse(KVOffloadTierSpec, document, "spec")
    assert (parsed is None) == bool(problems)
    assert all(p.path.startswith("spec") and p.message for p in problems)
    assert (parsed, problems) == parse(KVOffloadTierSpec, document, "spec")


@given(st.dictionaries(st.sampled_from(["cluster", "kvOffloadTiers"]), JSON))
def test_cluster_parses_or_has_problems(document: dict[str, Any]) -> None:
    parsed, problems = parse(InferenceClusterSpec, document, "spec")
    assert (parsed is None) == bool(problems)
