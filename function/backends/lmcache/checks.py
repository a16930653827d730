"""Checks of an LMCache tier beyond its schema: problems and warnings.

Each check is one function; all of them run, so that a user sees every problem.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from packaging.version import Version

from function.api.base import present
from function.api.lmcache_l2 import L2Level
from function.backends import agents, evictor, host_paths
from function.backends.lmcache import facts, gpu, l2
from function.backends.lmcache.facts import Tier
from function.problems import Problem
from function.redact import is_credential

_SPEC = "spec.lmcache"

# What upstream's server image lacks for a level: a Python package, or a feature of its build.
_MISSING = {
    "Valkey": "valkey-glide-sync",
    "NIXL": "nixl",
    "S3": "boto3, which keeps its credentials out of the arguments",
}

# Adapters of LMCache whose requirements no release image contains.
_RAW_MISSING = {
    "valkey": "valkey-glide-sync",
    "nixl_store": "nixl",
    "nixl_store_dynamic": "nixl",
    "mooncake_store": "a build of LMCache with Mooncake",
}


def problems(tier: Tier) -> list[Problem]:
    """Return all problems of the tier, sorted by path."""
    return sorted({problem for check in _CHECKS[tier.settings.mode] for problem in check(tier)})


def _image(tier: Tier) -> Iterator[Problem]:
    """Yield a problem if the version that decides the arguments is unknown or too old."""
    why = f"the agents' arguments depend on it (e.g. {facts.STOCK_TAG.lstrip('v')})"
    yield from agents.image_problems(facts.image(tier), "LMCache", facts.OLDEST, why)


def _features(tier: Tier) -> Iterator[Problem]:
    """Yield settings that need a newer LMCache than the agents'."""
    spec = tier.settings
    l1 = facts.first_level(tier)
    image = facts.image(tier)
    used = {
        "ipc Isolated": spec.ipc == facts.ISOLATED,
        "l1.hugepages": l1.hugepages,
        "l1.evictionPolicy ARC": l1.eviction_policy == "ARC",
        "registration.sessionSeconds": spec.registration.session_seconds
        != type(spec.registration)().session_seconds,
    }
    for feature, is_used in used.items():
        if is_used and image.version is not None and not image.has(feature):
            field, _, value = feature.partition(" ")
            yield Problem(
                f"{_SPEC}.{field}",
                f"{value or 'this setting'} needs LMCache {facts.SINCE[feature]} or newer: "
                f"spec.image has {image.version}",
            )


def _image_lacks(tier: Tier) -> Iterator[Problem]:
    """Yield levels that upstream's server image cannot serve."""
    if not facts.image(tier).stock:
        return
    for path, level in _levels(tier):
        lacks = _MISSING.get(level.type)
        if level.type == "Raw":
            lacks = _RAW_MISSING.get(_raw_type(level))
        if lacks:
            yield Problem(
                f"{path}.type",
                f"{level.type} needs an image with {lacks}. {facts.STOCK_REPOSITORY} has none: set "
                "spec.image to an image with it",
            )


def _differing_credentials(tier: Tier) -> Iterator[Problem]:
    """Yield levels of one type with different credentials.

    LMCache reads the credentials of all levels of a type from the same variables.
    """
    redis = [(path, level.redis) for path, level in _levels(tier) if level.redis is not None]
    for path, level in redis[1:]:
        first = redis[0][1]
        if (level.auth_secret, level.username) != (first.auth_secret, first.username):
            yield Problem(
                f"{path}.redis.authSecret",
                f"must equal that of {redis[0][0]}: an agent has one password for all Redis levels",
            )
    buckets = [(path, level.s3) for path, level in _levels(tier) if level.s3 is not None]
    for path, bucket in buckets[1:]:
        if bucket.credentials_secret != buckets[0][1].credentials_secret:
            yield Problem(
                f"{path}.s3.credentialsSecret",
                f"must equal that of {buckets[0][0]}: an agent has one access key for all buckets",
            )


def _valkey_password(tier: Tier) -> Iterator[Problem]:
    for path, level in _levels(tier):
        if level.valkey is not None and level.valkey.password_secret is not None:
            yield Problem(
                f"{path}.valkey.passwordSecret",
                "LMCache takes a Valkey's password as an argument only, visible to all who may "
                "read pods (CredentialInArgv). Use type Redis with authSecret for a single Valkey, "
                "or a Valkey without a password behind a NetworkPolicy",
            )


def _directories(tier: Tier) -> Iterator[Problem]:
    """Yield directories that belong to the node or that two levels use."""
    seen: dict[tuple[str, str], str] = {}
    for path, level in _levels(tier):
        for field, key in _places(level):
            where = f"{path}.{field}"
            kind, place = key
            if kind == "host":
                key = (kind, host_paths.normalise(place))
                if problem := host_paths.find_problem(place, where):
                    yield problem
            elif ".." in place.split("/"):
                yield Problem(where, "must not contain ..")
            if key in seen:
                yield Problem(where, f"is the same as {seen[key]}: give each level its own")
            seen.setdefault(key, where)


def _places(level: L2Level) -> Iterator[tuple[str, tuple[str, str]]]:
    if level.disk is not None and level.disk.host_path is not None:
        yield "disk.hostPath.path", ("host", level.disk.host_path.path)
    if level.nixl is not None:
        yield "nixl.hostPath.path", ("host", level.nixl.host_path.path)
    if level.raw is not None and level.raw.host_path is not None:
        yield "raw.hostPath.path", ("host", level.raw.host_path.path)
    shared = level.shared_file_system
    if shared is not None and shared.claim_name is not None:
        yield "sharedFileSystem.subPath", (f"claim {shared.claim_name}", shared.sub_path or "")
    elif shared is not None and shared.sub_path is not None:
        yield "sharedFileSystem.subPath", (f"claim of {level.name}", shared.sub_path)


def _raw(tier: Tier) -> Iterator[Problem]:
    """Yield problems of raw JSON: text that LMCache refuses, or a visible secret."""
    for path, level in _levels(tier):
        if level.raw is None:
            continue
        where = f"{path}.raw.json"
        try:
            body = json.loads(level.raw.json_)
        except ValueError as error:
            yield Problem(where, f"is not JSON: {error}")
            continue
        if not isinstance(body, dict):
            yield Problem(where, f'must be an object such as {{"type":"fs"}}, is {_name(body)}')
            continue
        kind = body.get("type")
        if not isinstance(kind, str) or not kind:
            yield Problem(where, 'must have a "type", the name of an adapter of LMCache')
        for key in sorted(set(_secret_keys(body))):
            yield Problem(
                where,
                f"{key} would be in an argument, visible to all who may read pods "
                "(CredentialInArgv). Use a typed level, which takes it from a Secret",
            )


def _secret_keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if is_credential(key):
                yield key
            yield from _secret_keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _secret_keys(item)


def _name(value: Any) -> str:
    return {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}.get(
        type(value), "a number"
    )


def _raw_type(level: L2Level) -> str:
    try:
        return str(json.loads(present(level.raw).json_)["type"])
    except (ValueError, TypeError, KeyError):
        return ""


def _levels(tier: Tier) -> Iterator[tuple[str, L2Level]]:
    for index, level in enumerate(tier.settings.l2):
        yield f"{_SPEC}.l2[{index}]", level


def warnings(tier: Tier) -> Iterator[str]:
    """Yield the warnings about a valid tier, for its Accepted condition."""
    spec = tier.settings
    image = facts.image(tier)
    types = {level.type for level in spec.l2}
    server = spec.mode == facts.NODE_SERVER
    host_paths = any(kind == "host" for _, lv in _levels(tier) for _, (kind, _) in _places(lv))
    if not server:
        yield "LMCache has deprecated mode InProcess. Use NodeServer if the engine allows it."
    if server and spec.ipc == facts.ISOLATED:
        yield (
            "ipc Isolated is not yet tested on a GPU. The engines' images need lmcache 0.5.5 or "
            "newer too."
        )
    if server and gpu.setting(tier).source == "DRAAdminAccess":
        yield "gpuVisibility DRAAdminAccess is not yet tested on a GPU."
    if server and not tier.spec.nodes.selector:
        yield "spec.nodes.selector is empty: an agent runs on every node, also without a GPU."
    if server and spec.l1 is not None and spec.l1.eviction_policy == "IsolatedLRU":
        yield "IsolatedLRU evicts by quotas: set them through the agents' HTTP API."
    if server and spec.run_as_user != 0 and host_paths:
        yield (
            f"hostPath directories must exist and be writable for uid {spec.run_as_user}: root "
            "owns those that the kubelet creates."
        )
    if server and spec.evictor.dry_run and any(lv.bounded for lv in l2.levels(tier)):
        yield evictor.DRY_RUN_WARNING
    if "S3" in types:
        yield "LMCache does not bound a bucket: give it a lifecycle rule."
    if "Raw" in types:
        yield "Only its own JSON bounds a Raw level."
    if server and image.version is not None and image.version > Version("0.5.6"):
        yield f"LMCache {image.version} is newer than 0.5.6, the newest tested version."


def pod_security(tier: Tier) -> str:
    """Return the strictest Pod Security level for the agents and a managed Redis."""
    spec = tier.settings
    if spec.mode != facts.NODE_SERVER:
        return "restricted"
    volumes = any(kind == "host" for _, level in _levels(tier) for _, (kind, _) in _places(level))
    if volumes or spec.ipc == facts.SHARED_MEMORY:
        return "privileged"
    return "restricted" if spec.run_as_user else "baseline"


_CHECKS: dict[str, tuple[Callable[[Tier], Iterator[Problem]], ...]] = {
    facts.NODE_SERVER: (
        _image,
        _features,
        _image_lacks,
        _differing_credentials,
        _valkey_password,
        _directories,
        _raw,
    ),
    facts.IN_PROCESS: (),
}
