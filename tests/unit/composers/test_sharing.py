"""Which consumers share blocks: two calls of the whole function, each with an engine of its own."""

import json
import re
from typing import Any

import pytest

from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe

KEY = "model-serving-main"
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
OFFLOADING = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 1},
}
ALL = {"allowedNamespaces": {"from": "All"}}
POOL = {"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}}
REDIS = {"name": "r", "type": "Redis", "redis": {"host": "redis.example"}}
PACKAGES = "lmcache=0.5.6,mooncake=0.3.13,nixl=1.5.1"


def consume(
    *args: str,
    namespace: str = "team-a",
    declared: str = "",
    env: Any = (),
    env_from: Any = (),
    image: str = d.IMAGE,
    model: str = d.MODEL,
    volume: Any = None,
    observed: Any = None,
    **spec: Any,
) -> Any:
    annotations = {
        "modelplane.ai/kv-offload-tier": "chat",
        "modelplane.ai/kv-offload-packages": PACKAGES,
        "modelplane.ai/kv-offload-model-family": "dense",
    }
    if declared:
        annotations["modelplane.ai/kv-offload-cache-identity"] = declared
    engine = d.engine(annotations, args=["--model", model, *args], image=image)
    pod = d.wired_pod(engine)["spec"]
    del pod["volumes"], pod["containers"][0]["volumeMounts"]
    pod["containers"][0] |= {"env": list(env), "envFrom": list(env_from)}
    if volume:
        pod["volumes"] = [{"name": "m", **volume}]
        pod["containers"][0]["volumeMounts"] = [{"name": "m", "mountPath": "/mnt/models"}]
    tier = d.ready_tier(**{**ALL, **spec})
    return call(
        d.replica(namespace=namespace),
        desired={KEY: engine},
        observed=observed,
        required=d.requirements(tier),
    )


def identity(*args: str, **given: Any) -> str:
    got = consume(*args, **given)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired"), got.messages
    found = re.search("cache identity ([0-9a-f]{12})", got.messages["KVOffloadReady"])
    assert found, got.messages
    return found[1]


def transfer(*connectors: Any) -> list[str]:
    config: Any = connectors[0]
    if len(connectors) > 1:
        extra = {"connectors": list(connectors)}
        config = {
            "kv_connector": "MultiConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        }
    return ["--kv-transfer-config", json.dumps(config)]


PROD = {"declared": "prod", "model": "/mnt/models"}
DECLARED: dict[str, Any] = {
    "dtype": (("--dtype", "float16"), {}),
    "quantisation": (("--quantization", "awq"), {}),
    "ranks": (("--tensor-parallel-size", "2"), {}),
    "engine version": ((), {"image": "vllm/vllm-openai:v0.31.0"}),
    "namespace": ((), {"namespace": "team-b"}),
}


@pytest.mark.parametrize("name", DECLARED)
def test_one_declared_identity_does_not_hide_a_difference(name: str) -> None:
    args, more = DECLARED[name]
    assert identity(*args, **PROD, **more) != identity(**PROD)


def test_equal_engines_share_by_a_declared_identity() -> None:
    volume = {"persistentVolumeClaim": {"claimName": "other"}}
    assert identity(**PROD) == identity(**PROD, volume=volume)


def test_cluster_scoped_consumers_share_no_declared_identity_with_a_namespace() -> None:
    """The pods of a cluster-scoped one may run in a namespace of that name."""
    assert identity(**PROD, namespace="") != identity(**PROD, namespace="default")


def test_a_tier_may_share_declared_identities_between_namespaces() -> None:
    shared = {**PROD, "shareDeclaredIdentities": True}
    assert identity(**shared) == identity(**shared, namespace="team-b")
    assert identity(**shared) != identity("--dtype", "float16", **shared, namespace="team-b")


def test_layouts_of_other_connectors_split_a_pool() -> None:
    alone, nixl = identity(**POOL), identity(*transfer(NIXL), **POOL)
    assert alone != nixl
    assert identity(*transfer(OFFLOADING), **POOL) == nixl
    assert identity(*transfer(OFFLOADING, NIXL), **POOL) == nixl


def test_connectors_of_the_tiers_own_layout_split_nothing() -> None:
    files = {"name": "f", "type": "FileSystem"}
    files |= {"fileSystem": {"sizeGiB": 8, "claim": {"storageClassName": "files"}}}
    native = {"cpu": {"sizeGiB": 8}, "secondary": [files]}
    native = {"backend": "Native", "lmcache": None, "native": native}
    assert identity(**native) == identity(*transfer(NIXL), **native)


def test_wiring_a_wired_pod_keeps_its_identity() -> None:
    for args in ((), transfer(NIXL)):
        first = consume(*args, **POOL)
        pod = d.wired_pod(first.desired[KEY])["spec"]["containers"][0]
        words = pod["args"]
        given = words[words.index("--kv-transfer-config") + 1]
        again = identity(*transfer(json.loads(given)), env=pod["env"], **POOL)
        assert again in first.messages["KVOffloadReady"]


def test_a_running_pod_keeps_its_recorded_identity() -> None:
    first = consume(**PROD)
    shared = consume(**PROD, shareDeclaredIdentities=True, observed=observe(first))
    assert shared.desired[KEY] == first.desired[KEY]
    assert "Until then its cache identity is" in shared.messages["KVOffloadReady"]


def test_tiers_on_one_redis_share_by_an_explicit_prefix_alone() -> None:
    def at(cluster: str = "gpu", prefix: str = "", serde: str = "", **given: Any) -> str:
        level: Any = {**REDIS, "redis": {**REDIS["redis"]}}
        if prefix:
            level["redis"]["keyPrefix"] = prefix
        if serde:
            level["serde"] = {"type": serde}
        return identity(lmcache={"l1": {"sizeGiB": 200}, "l2": [level]}, **given)

    plain = identity()
    assert len({plain, at(), at(prefix="fleet"), at(prefix="fleet", serde="FP8")}) == 4
    assert at(prefix="fleet") == at(prefix="fleet")


def test_the_encoding_of_files_is_part_of_the_identity() -> None:
    """Files that were written before an edit of an unused tier are misses, not other bytes."""

    def at(serde: str) -> str:
        disk = {"sizeGiB": 8, "hostPath": {"path": "/mnt/kv"}}
        level: Any = {"name": "nvme", "type": "Disk", "disk": disk}
        level |= {"serde": {"type": serde}} if serde else {}
        nodes = {"selector": {"gpu": "true"}}
        return identity(lmcache={"l1": {"sizeGiB": 200}, "l2": [level]}, nodes=nodes)

    assert at("") != at("FP8")


def test_a_weight_transfer_is_refused_where_blocks_outlive_it() -> None:
    got = consume("--weight-transfer-config", "{}", **POOL)
    assert got.conditions["KVOffloadReady"] == ("False", "EngineUnsupported"), got.messages
    assert "KVO-2026-121" in got.messages["KVOffloadReady"]
