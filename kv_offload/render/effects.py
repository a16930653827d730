"""Compare two plans of one tier: parts, how their pods restart, and the wiring of engines."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from function.api.engines import ENGINES
from function.composers.tier_plan import TierPlan
from function.contract import gate
from function.contract.backend import AGENTS, Part
from function.contract.engine import Engine
from function.contract.versions import known_versions
from function.problems import Refused

Document = dict[str, Any]

# Stand for what wiring is asked about.
_IDENTITY, _MODEL = "0" * 16, "MODEL"
_PHASES = ("Unified", "Prefill", "Decode")

# Of a value that is shown.
_LONGEST = 60

# Kinds whose pods are made of a template in them.
_OF_PODS = frozenset({"DaemonSet", "StatefulSet", "Deployment", "Job"})


# What chooses a DaemonSet's nodes. Its controller deletes the pods of nodes that no longer fit
# before the update strategy counts.
_NODES = ("spec.template.spec.nodeSelector", "spec.template.spec.affinity")
_MOVED = "Pods on nodes that no longer match are deleted all at once."
_STAY = "No pod restarts."


class Verb(StrEnum):
    """What happens to a part when the new document is applied."""

    REFUSED = "refused"
    REFUSED_IN_USE = "refused while in use"
    NOT_KNOWN = "not known"
    SELECTS_NONE = "selects no cluster"
    SHUT_OUT = "may no longer use the tier"
    LEAVES = "leaves the fleet"
    JOINS = "joins the fleet"
    CONFLICTS = "conflicts with"
    WAVE = "takes the edit"
    ADDED = "added"
    REMOVED = "removed"
    RESTARTED = "its pods restart"
    UPDATED = "updated in place"
    REWIRED = "pods are wired differently"
    NOT_WIRED = "pods can no longer be wired"


# What refuses the edit, in contrast to what it does; and with what exit code 3 says so.
REFUSALS = frozenset({Verb.REFUSED, Verb.REFUSED_IN_USE})
FAILS = frozenset({Verb.REFUSED, Verb.CONFLICTS})


@dataclass(frozen=True)
class Effect:
    """One effect of the edit.

    `what`: a field, a part's key, engines or clusters. `why`: a sentence. `differences`: "PATH: WAS
    -> BECOMES", or the items that a list loses and gains. `clusters`: of a fleet, where it is so on
    some clusters only.
    """

    verb: Verb
    what: str
    why: str = ""
    differences: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()

    def to_json(self) -> Document:
        """Return every field for programs; the key of `verb` is "effect"."""
        return {
            "effect": self.verb.value,
            "what": self.what,
            "why": self.why,
            "differences": list(self.differences),
            "clusters": list(self.clusters),
        }


def agent_keys(planned: TierPlan) -> set[str]:
    """Return the keys of the parts that hold a tier's memory."""
    return {part.key for part in planned.parts if part.role == AGENTS}


def compare(before: TierPlan, after: TierPlan) -> Iterator[Effect]:
    """Yield what changes on a tier's cluster and for its engines."""
    yield from _parts(before, after)
    yield from _wiring(before, after)


def _parts(before: TierPlan, after: TierPlan) -> Iterator[Effect]:
    was, becomes = ({part.key: part for part in each.parts} for each in (before, after))
    for key in sorted({*was, *becomes}):
        if key not in becomes:
            why = "It stays on the cluster, unmanaged." if was[key].keep else ""
            yield Effect(Verb.REMOVED, key, why)
        elif key not in was:
            yield Effect(Verb.ADDED, key)
        else:
            new = becomes[key].manifest
            paths = tuple(differing(was[key].manifest, new))
            holds = key in agent_keys(before) and before.description.capacity_gib_per_agent
            lost = f" Each loses {holds} GiB of blocks in memory." if holds else ""
            if paths:
                yield _changed(was[key], new, paths, lost)


def _changed(part: Part, manifest: Document, paths: tuple[str, ...], lost: str) -> Effect:
    """Return the effect on what has pods or not. `lost`: a sentence on each pod that ends."""
    if manifest["kind"] not in _OF_PODS:
        return Effect(Verb.UPDATED, part.key, "", paths)
    gone = part.manifest["spec"].get("replicas", 1) - manifest["spec"].get("replicas", 1)
    fewer = f"{gone} of its pods are deleted." if gone > 0 else ""
    if not any(path.startswith("spec.template") for path in paths):
        return Effect(Verb.UPDATED, part.key, f"{fewer}{lost}" if fewer else _STAY, paths)
    moved = manifest["kind"] == "DaemonSet" and any(path.startswith(_NODES) for path in paths)
    why = [_rollout(manifest), _MOVED if moved else "", fewer]
    return Effect(Verb.RESTARTED, part.key, " ".join(filter(None, why)) + lost, paths)


def _rollout(manifest: Document) -> str:
    """Return in words how many pods are replaced at once."""
    spec = manifest["spec"]
    strategy = spec.get("updateStrategy") or spec.get("strategy") or {}
    if strategy.get("type") == "OnDelete":
        return "Each pod when you delete it (upgradePolicy OnDelete)."
    if strategy.get("type") == "Recreate":
        return "All at once."
    at_once = (strategy.get("rollingUpdate") or {}).get("maxUnavailable")
    if at_once == "100%":
        return "All at once."
    return f"At most {at_once} at a time." if at_once else "One at a time."


def differing(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ, as deep as both have the path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differing(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from differing(left, right, f"{path}[{index}]{_flag(old, new, index)}")
    elif isinstance(old, list) and isinstance(new, list):
        gone = [_brief(item) for item in old if item not in new]
        came = [_brief(item) for item in new if item not in old]
        signed = [f"- {item}" for item in gone] + [f"+ {item}" for item in came]
        if old != new:
            yield f"{path}: {', '.join(signed) or 'in another order'}"
    elif old != new:
        yield f"{path}: {_brief(old)} -> {_brief(new)}"


def _flag(old: Sequence[Any], new: Sequence[Any], index: int) -> str:
    """Return " (--flag)" for an argument that is the value of that flag, "" for another item."""
    before = old[index - 1] if index else None
    is_flag = isinstance(before, str) and before.startswith("--") and before == new[index - 1]
    is_value = isinstance(old[index], str) and not old[index].startswith("--")
    return f" ({before})" if is_flag and is_value else ""


def _brief(value: Any) -> str:
    """Return a value on one line; files and whole containers are abbreviated."""
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST and "\n" not in text else "..."


def _wiring(before: TierPlan, after: TierPlan) -> Iterator[Effect]:
    """Yield changes of the wiring per engine; versions that change alike share a line."""
    for name in ENGINES:
        lines: dict[tuple[Verb, tuple[str, ...], str], dict[str, None]] = {}
        for version in known_versions(name):
            for phase in _PHASES:
                engine = Engine(
                    name, version, flags={}, phase=phase, model=_MODEL, identity=_IDENTITY
                )
                change = _rewired(before, after, engine)
                if change is not None:
                    lines.setdefault(change, {}).setdefault(version)
        for (verb, paths, why), versions in lines.items():
            yield Effect(verb, _range(name, list(versions)), why, paths)


def _rewired(
    before: TierPlan, after: TierPlan, engine: Engine
) -> tuple[Verb, tuple[str, ...], str] | None:
    was = _injection(before, engine)
    if isinstance(was, Refused):
        return None
    becomes = _injection(after, engine)
    if isinstance(becomes, Refused):
        return Verb.NOT_WIRED, (), f"{becomes.reason}: {becomes}. Wired pods keep their wiring."
    paths = tuple(differing(was, becomes))
    return (Verb.REWIRED, paths, "") if paths else None


def _injection(planned: TierPlan, engine: Engine) -> Document | Refused:
    try:
        verdict = gate.versions(planned.backend.gate(planned.tier, engine))
        engine = replace(engine, features=verdict.features)
        return planned.backend.inject(planned.tier, engine).to_json()
    except Refused as refused:
        return refused


def _range(engine: str, versions: Sequence[str]) -> str:
    """Return "vLLM 0.20.0 to 0.33.0" for versions in order."""
    if len(versions) == 1:
        return f"{engine} {versions[0]}"
    return f"{engine} {versions[0]} to {versions[-1]}"
