"""Manifests of every valid tier are deterministic, complete and hardened."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from function.api.engines import SGLANG, VLLM
from function.backends.lmcache import BACKEND, facts
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.kube.manifests import literal
from tests.unit.backends.lmcache import read, tier

SIZE = st.integers(1, 4096)
SECRET = st.fixed_dictionaries({"name": st.just("s3cret-name"), "key": st.just("key")})
SERDE = st.one_of(
    st.none(),
    st.just({"type": "FP8"}),
    st.builds(
        lambda secret, bits: {"type": "AESGCM", "aesgcm": {"keySecret": secret, "keyBits": bits}},
        SECRET,
        st.sampled_from([128, 256]),
    ),
)


def _of(type_: str, field: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    body = st.fixed_dictionaries({}, optional={}) if not keys else st.fixed_dictionaries(keys)
    return body.map(lambda settings_: {"type": type_, field: settings_})


LEVEL = st.one_of(
    _of("Disk", "disk", sizeGiB=SIZE, ephemeral=st.just({})),
    _of("Disk", "disk", sizeGiB=SIZE, hostPath=st.just({"path": "/mnt/a"}), directIo=st.booleans()),
    _of("SharedFileSystem", "sharedFileSystem", sizeGiB=SIZE, storageClassName=st.just("rwx")),
    _of("Redis", "redis", host=st.just("r"), authSecret=SECRET),
    _of("Redis", "redis", managed=st.fixed_dictionaries({"sizeGiB": SIZE}), authSecret=SECRET),
    _of("NIXL", "nixl", sizeGiB=SIZE, hostPath=st.just({"path": "/mnt/b"})),
    _of("Valkey", "valkey", nodes=st.just([{"host": "v"}])),
    _of("Raw", "raw", json=st.text(max_size=20).map(lambda t: json.dumps({"type": "x", "t": t}))),
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Specs of NodeServer tiers, nearly all of them valid."""
    levels = draw(st.lists(st.tuples(LEVEL, SERDE), max_size=4))
    l2 = []
    for number, (level, serde) in enumerate(levels):
        named = {"name": f"l{number}", **level}
        if serde is not None and level["type"] != "Raw":
            named["serde"] = serde
        l2.append(named)
    size = draw(SIZE)
    return {
        "image": {"repository": "example/own", "tag": draw(st.sampled_from(["v0.5.5", "v0.5.6"]))},
        "gpuVisibility": draw(
            st.sampled_from(
                [
                    {"source": "CDI"},
                    {"source": "DRAAdminAccess"},
                    {"source": "RuntimeClass", "runtimeClass": {"name": "nvidia"}},
                ]
            )
        ),
        "startupTimeoutSeconds": draw(st.integers(30, 7200)),
        "lmcache": {
            "ipc": draw(st.sampled_from(["Isolated", "SharedMemory"])),
            "chunkTokens": 16 * draw(st.integers(1, 64)),
            "runAsUser": draw(st.sampled_from([0, 1000])),
            "l1": {
                "sizeGiB": size,
                "evictionPolicy": draw(st.sampled_from(["LRU", "IsolatedLRU", "noop"])),
                "evictionTriggerPercent": draw(st.integers(1, 100)),
                "evictionPercent": draw(st.integers(1, 100)),
            },
            "l2": l2,
        },
    }


def _valid(document: dict[str, Any]) -> Tier | None:
    found, problems = read(document)
    assert found is not None, [str(p) for p in problems]
    return found if not BACKEND.problems(found) else None


def _agent(tier: Tier) -> dict[str, Any]:
    parts = {part.key: part.manifest for part in BACKEND.parts(tier)}
    pod: dict[str, Any] = parts["daemonset-agent"]["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("has_levels", [False, True])
def test_policies_between_memory_and_levels(has_levels: bool) -> None:
    """LMCache's own defaults are not passed."""
    disk = {"name": "d", "type": "Disk", "disk": {"sizeGiB": 1, "ephemeral": {}}}
    for asked, want in ((False, []), (True, ["retain", "skip_l1"])):
        found = tier(
            {
                "lmcache": {
                    "l1": {"sizeGiB": 1, "bufferOnly": asked},
                    "l2": [disk] if has_levels else [],
                    "prefetch": {"retain": asked},
                }
            }
        )
        words = _agent(found)["containers"][0]["args"]
        given = [words[i + 1] for i, word in enumerate(words) if word.startswith("--l2-p")]
        given += [words[i + 1] for i, word in enumerate(words) if word == "--l2-store-policy"]
        assert given == (["8", *want] if has_levels else [])


@settings(max_examples=60, deadline=None)
@given(documents())
def test_manifests_are_deterministic_plain_data(document: dict[str, Any]) -> None:
    one, two = _valid(document), _valid(json.loads(json.dumps(document)))
    if one is None or two is None:
        return
    first = [part.manifest for part in BACKEND.parts(one)]
    assert json.dumps(first) == json.dumps([part.manifest for part in BACKEND.parts(two)])
    keys = [part.key for part in BACKEND.parts(one)]
    assert len(keys) == len(set(keys))
    for manifest in first:
        assert manifest["metadata"]["name"] and len(manifest["metadata"]["name"]) <= 63


@settings(max_examples=60, deadline=None)
@given(documents())
def test_every_mount_has_its_volume_and_every_container_is_hardened(
    document: dict[str, Any],
) -> None:
    tier = _valid(document)
    if tier is None:
        return
    pod = _agent(tier)
    volumes = [volume["name"] for volume in pod["volumes"]]
    assert len(volumes) == len(set(volumes))
    mounted = {mount["name"] for c in pod["containers"] for mount in c["volumeMounts"]}
    assert mounted == set(volumes)
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert container["resources"]["limits"]["memory"]
        env = [variable["name"] for variable in container.get("env", [])]
        assert len(env) == len(set(env))
    host = any("hostPath" in volume for volume in pod["volumes"])
    level = BACKEND.describe(tier).pod_security
    assert (level == "privileged") == host
    assert (level == "restricted") == (
        not host and pod["securityContext"].get("runAsNonRoot", False)
    )


@settings(max_examples=60, deadline=None)
@given(documents())
def test_no_secret_in_arguments_and_files_are_bounded(document: dict[str, Any]) -> None:
    tier = _valid(document)
    if tier is None:
        return
    pod = _agent(tier)
    args = pod["containers"][0]["args"]
    assert not any("s3cret-name" in word for c in pod["containers"] for word in c["args"])
    adapters = [json.loads(args[n + 1]) for n, w in enumerate(args) if w == "--l2-adapter"]
    assert [a["type"] for a in adapters] == [
        _ADAPTERS[x["type"]] for x in document["lmcache"]["l2"]
    ]
    of_files = [a for a in adapters if a["type"] in ("fs_native", "nixl_store_dynamic")]
    bounded = json.loads(pod["containers"][1]["args"][0])["directories"] if of_files else []
    assert [_directory(a) for a in of_files] == [row["path"] for row in bounded]
    assert all("eviction" in a for a in of_files)


_ADAPTERS = {
    "Disk": "fs_native",
    "SharedFileSystem": "fs_native",
    "Redis": "resp",
    "NIXL": "nixl_store_dynamic",
    "Valkey": "valkey",
    "Raw": "x",
}


def _directory(adapter: dict[str, Any]) -> str:
    return str(adapter.get("base_path") or adapter["backend_params"]["file_path"])


@settings(max_examples=60, deadline=None)
@given(documents())
def test_startup_probe_covers_the_startup_timeout(document: dict[str, Any]) -> None:
    tier = _valid(document)
    if tier is None:
        return
    probe = _agent(tier)["containers"][0]["startupProbe"]
    budget = probe["periodSeconds"] * probe["failureThreshold"]
    assert 0 <= budget - facts.startup_seconds(tier) < probe["periodSeconds"]
    assert budget >= document["startupTimeoutSeconds"]
    engine = Engine(VLLM, "0.33.0", identity="0123456789ab")
    if document["lmcache"]["ipc"] == "SharedMemory":
        found = BACKEND.inject(tier, Engine(SGLANG, "0.5.23", identity="0123456789ab"))
        assert found.shm is not None and found.shm.host
    connector = BACKEND.inject(tier, engine).connector
    assert connector is not None
    extra = connector["kv_connector_extra_config"]
    assert extra["lmcache.mp.mq_timeout"] == facts.startup_seconds(tier)
    assert extra.get("lmcache.mp.isolated_ipc", False) == (document["lmcache"]["ipc"] == "Isolated")


def _expand(text: str) -> str:
    """Kubernetes' own expansion of an argument, with no variable defined."""
    out, rest = "", text
    while rest:
        if rest.startswith("$$"):
            out, rest = out + "$", rest[2:]
        else:
            out, rest = out + rest[0], rest[1:]
    return out


@given(st.text(alphabet='a$()HOME{}"', max_size=30))
def test_dollar_signs_survive_argument_expansion(text: str) -> None:
    assert _expand(literal(text)) == text
