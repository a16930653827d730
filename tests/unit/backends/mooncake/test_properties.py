"""What holds for every tier that is accepted."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from function.backends.mooncake import BACKEND
from tests.unit.backends.mooncake import RDMA, read, sglang, vllm

_OFFLOAD = st.sampled_from(
    [None, {"sizeGiB": 9, "claim": {}}, {"sizeGiB": 9, "hostPath": {"path": "/mnt/kv"}}]
)
_STORE = st.fixed_dictionaries(
    {"sizeGiB": st.integers(1, 4096), "hugepages": st.sampled_from([None, "2Mi", "1Gi"])},
    optional={"offload": _OFFLOAD, "form": st.just("StatefulSet"), "replicas": st.integers(1, 9)},
)
_ETCD = st.sampled_from(
    [
        None,
        {"source": "Managed"},
        {"source": "External", "external": {"endpoints": [{"host": "e"}]}},
    ]
)
_SPEC = st.fixed_dictionaries(
    {
        "store": _STORE,
        "protocol": st.sampled_from(["tcp", "rdma"]),
        "metadata": st.sampled_from(["p2p", "http", "etcd"]),
        "etcd": _ETCD,
    },
    optional={
        "master": st.fixed_dictionaries({"replicas": st.integers(1, 5), "oplog": st.booleans()}),
        "allocationStrategy": st.sampled_from(["random", "local_first"]),
    },
)


@given(_SPEC)
@settings(max_examples=300, deadline=None)
def test_accepted_tier_composes_valid_sizes(mooncake: dict[str, Any]) -> None:
    document = {"mooncake": mooncake, "rdma": RDMA}
    tier, _ = read(document)
    if tier is None or BACKEND.problems(tier):
        return
    parts = BACKEND.parts(tier)
    keys = [part.key for part in parts]
    assert len(set(keys)) == len(keys) <= 11
    assert sum(part.watch for part in parts) <= 3
    names = {(p.manifest["kind"], p.manifest["metadata"]["name"]) for p in parts}
    assert len(names) == len(parts)
    again, _ = read(json.loads(json.dumps(document)))
    assert again is not None
    assert json.dumps([p.manifest for p in BACKEND.parts(again)]) == json.dumps(
        [p.manifest for p in parts]
    )
    for engine in (vllm(), sglang()):
        assert BACKEND.inject(tier, engine) == BACKEND.inject(again, engine)
    _sizes(tier.settings.store, parts)


def _sizes(store: Any, parts: Any) -> None:
    """Bytes reach Mooncake as whole numbers, and fit the memory that the pod asks for."""
    (pod,) = [p.manifest["spec"]["template"]["spec"] for p in parts if p.key.endswith("set-store")]
    (container,) = pod["containers"]
    env = {v["name"]: v.get("value") for v in container["env"]}
    assert int(env["MOONCAKE_GLOBAL_SEGMENT_SIZE"]) == store.size_gib * 2**30
    limits = container["resources"]["limits"]
    where = f"hugepages-{store.hugepages}" if store.hugepages else "memory"
    assert int(limits[where].removesuffix("Gi")) >= store.size_gib + (not store.hugepages)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for each in (*pod["initContainers"], container):
        assert each["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert each["securityContext"]["allowPrivilegeEscalation"] is False
