"""What a pod template's annotations declare: the tier, the policy, the engine, the cache identity.

Modelplane copies a member's annotations to its pods and to nothing else, so this is the one place
where they can stand. One member's annotation counts for its whole gang.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from function.contract.engine import ENGINES
from function.problems import Refused

_PREFIX = "modelplane.ai/kv-offload-"
TIER = _PREFIX + "tier"
POLICY = _PREFIX + "policy"
ENGINE = _PREFIX + "engine"
ENGINE_VERSION = _PREFIX + "engine-version"
CACHE_IDENTITY = _PREFIX + "cache-identity"

POLICIES = ("Required", "Optional", "Off")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class Declared:
    """ "" is what is not declared. `tier`: the name; `namespace`: its namespace where one is given.

    `engine`: vLLM or SGLang. `version`: a PEP 440 string. `cache_identity`: free text.
    """

    tier: str = ""
    namespace: str = ""
    policy: str = ""
    engine: str = ""
    version: str = ""
    cache_identity: str = ""


def declared(templates: Iterable[Mapping[str, Any]]) -> Declared:
    """What the templates of one gang declare together.

    Raises Refused: TierConflict where two of them differ, InvalidInput for a value that is none.
    Where all that state a policy state Off, the others need not agree: nothing will be wired.
    """
    found: dict[str, str] = {}
    all_annotations = [(t.get("metadata") or {}).get("annotations") or {} for t in templates]
    off = {a[POLICY] for a in all_annotations if POLICY in a} == {"Off"}
    for annotations in all_annotations:
        for name in _READERS:
            value = annotations.get(name)
            if value is None:
                continue
            value = str(value).strip()
            if found.setdefault(name, value) != value and not off:
                raise Refused(
                    "TierConflict",
                    f"pods of one engine say {found[name]!r} and {value!r}; say the same on all, "
                    "or on one",
                    f"metadata.annotations[{name}]",
                )
    values: dict[str, str] = {}
    for name, value in found.items():
        values.update(_READERS[name](value))
    return Declared(**values)


def _tier(value: str) -> dict[str, str]:
    namespace, slash, name = value.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _NAME.fullmatch(namespace)):
        raise _invalid(f"{value!r} is not [NAMESPACE/]NAME of a KVOffloadTier", TIER)
    return {"tier": name, "namespace": namespace}


def _policy(value: str) -> dict[str, str]:
    if value not in POLICIES:
        raise _invalid(f"{value!r} is not one of {', '.join(POLICIES)}", POLICY)
    return {"policy": value}


def _engine(value: str) -> dict[str, str]:
    for engine in ENGINES:
        if value.lower() == engine.lower():
            return {"engine": engine}
    raise _invalid(f"{value!r} is not one of {', '.join(ENGINES)}", ENGINE)


def _version(value: str) -> dict[str, str]:
    try:
        return {"version": str(Version(value))}
    except InvalidVersion:
        raise _invalid(f"{value!r} is not a version, such as 0.33.0", ENGINE_VERSION) from None


def _cache_identity(value: str) -> dict[str, str]:
    return {"cache_identity": value}


_READERS = {
    TIER: _tier,
    POLICY: _policy,
    ENGINE: _engine,
    ENGINE_VERSION: _version,
    CACHE_IDENTITY: _cache_identity,
}


def _invalid(message: str, annotation: str) -> Refused:
    return Refused("InvalidInput", message, f"metadata.annotations[{annotation}]")
