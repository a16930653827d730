"""What an engine reaches of a claim that tiers share."""

from collections.abc import Callable
from typing import Any

import pytest

from function.backends.hicache import BACKEND as HICACHE
from function.backends.lmcache import BACKEND as LMCACHE
from function.backends.native import BACKEND as NATIVE
from function.contract.injection import Injection
from function.pods.patch.security import is_non_root, is_root
from tests.unit.backends import hicache, native, tiers


def _native(**facts: Any) -> tuple[Injection, str, str]:
    tier = native.native(native.FILES)
    found = NATIVE.inject(tier, native.vllm(**facts))
    (level,) = (found.connector or {})["kv_connector_extra_config"]["secondary_tiers"]
    return found, f"/mnt/kv-offload/files/{tier.remote_name}", level["root_dir"]


def _hicache(**facts: Any) -> tuple[Injection, str, str]:
    tier = hicache.stored("File", claim={"claimName": "kv"}, sizeGiB=8)
    found = HICACHE.inject(tier, hicache.sglang(tier, **facts))
    (place,) = (v["value"] for v in found.env if v["name"].endswith("_STORAGE_DIR"))
    return found, f"/mnt/kv-offload/{tier.remote_name}", place


def _posix(**facts: Any) -> tuple[Injection, str, str]:
    settings = {"plugin": "POSIX", "posix": {"claim": {"claimName": "kv"}}}
    tier = hicache.cache(storage={"type": "NIXL", "nixl": settings})
    found = HICACHE.inject(tier, hicache.sglang(tier, **facts))
    (place,) = (v["value"] for v in found.env if v["name"].endswith("_STORAGE_DIR"))
    return found, f"/mnt/kv-offload/{tier.remote_name}", place


def _in_process(**facts: Any) -> tuple[Injection, str, str]:
    remote = {"type": "SharedFileSystem", "sharedFileSystem": {"claimName": "kv"}}
    spec = {"mode": "InProcess", "inProcess": {"memoryGiB": 8, "remote": remote}}
    tier = tiers.tier("LMCache", {"lmcache": spec})
    found = LMCACHE.inject(tier, native.vllm(**facts))
    (text,) = (text for name, text in found.files.items() if name.endswith(".yaml"))
    (place,) = (line.partition("localhost:0")[2] for line in text.splitlines() if "fs://" in line)
    return found, f"/mnt/kv-offload/{tier.remote_name}", place


CLAIMS = (_native, _hicache, _posix, _in_process)


@pytest.mark.parametrize("wire", CLAIMS)
def test_an_engine_as_root_reaches_only_its_tiers_directory(
    wire: Callable[..., tuple[Injection, str, str]],
) -> None:
    found, own, place = wire(root=True)
    (mount,) = (m for m in found.mounts if m["name"] in {v["name"] for v in found.volumes})
    assert (mount["mountPath"], mount["subPath"]) == (own, own.rpartition("/")[2])
    assert place.startswith(f"{own}/"), "what it writes is in there"


@pytest.mark.parametrize("wire", CLAIMS)
def test_an_engine_of_another_user_makes_its_directory_itself(
    wire: Callable[..., tuple[Injection, str, str]],
) -> None:
    """The kubelet would make it as root, with the mode of the volume's top."""
    found, own, place = wire()
    (mount,) = (m for m in found.mounts if m["name"] in {v["name"] for v in found.volumes})
    assert (mount["mountPath"], "subPath" in mount) == (own.rpartition("/")[0], False)
    assert place == wire(root=True)[2], "old and new pods share"


# (the pod's securityContext, the container's, whether it surely runs as another user, or as root)
USERS: tuple[tuple[dict[str, Any], dict[str, Any], bool, bool], ...] = (
    ({}, {}, False, False),  # the image's USER, or one that OpenShift assigns
    ({}, {"privileged": True}, False, False),
    ({"runAsUser": 0}, {}, False, True),
    ({"runAsUser": 1000}, {}, True, False),
    ({"runAsUser": 1000}, {"runAsUser": 0}, False, True),
    ({"runAsUser": 0}, {"runAsUser": 1000}, True, False),
    ({"runAsNonRoot": True}, {}, True, False),
)


@pytest.mark.parametrize(("pod", "container", "other", "root"), USERS)
def test_user_of_a_container(
    pod: dict[str, Any], container: dict[str, Any], other: bool, root: bool
) -> None:
    holders = {"securityContext": pod}, {"securityContext": container}
    assert (is_non_root(*holders), is_root(*holders)) == (other, root)
