"""Tell what an edit of a tier would do before it is applied, for `kv-offload plan`.

Two documents of one tier become two plans, as the tier's composer makes them; their parts, pinned
settings and the wiring of reference engines are compared. Nothing is looked up: effects that depend
on whether the tier is in use say so.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from rich.text import Text
from rich.tree import Tree

from function.api.engines import ENGINES
from function.backends.registry import BACKENDS
from function.composers import pinned, tier_plan
from function.composers.tier_plan import TierPlan
from function.contract import gate
from function.contract.backend import Part
from function.contract.engine import Engine
from function.contract.versions import known_versions
from function.edge.structs import encode
from function.problems import Problem, Refused
from kv_offload.render.files import InputError

Document = dict[str, Any]

# Stands for each cluster of a fleet, and for what wiring is asked about.
_CLUSTER = "any"
_IDENTITY, _MODEL = "0" * 16, "MODEL"
_PHASES = ("Unified", "Prefill", "Decode")

# Of a value that is shown.
_LONGEST = 60

# Kinds whose pods are made of a template in them.
_OF_PODS = frozenset({"DaemonSet", "StatefulSet", "Deployment", "Job"})


class Verb(StrEnum):
    """What happens to a part when the new document is applied."""

    REFUSED = "refused"
    REFUSED_IN_USE = "refused while in use"
    ADDED = "added"
    REMOVED = "removed"
    RESTARTED = "its pods restart"
    UPDATED = "updated in place"
    REWIRED = "pods are wired differently"
    NOT_WIRED = "pods can no longer be wired"


# What stands in the way of the edit, as against what it does.
REFUSALS = frozenset({Verb.REFUSED, Verb.REFUSED_IN_USE})


@dataclass(frozen=True)
class Effect:
    """One effect of the edit.

    `what`: a field, a part's key, or engines. `why`: a sentence. `differences`: "PATH: WAS ->
    BECOMES", or the items that a list loses and gains.
    """

    verb: Verb
    what: str
    why: str = ""
    differences: tuple[str, ...] = ()

    def to_json(self) -> Document:
        """Return every field for programs; the key of `verb` is "effect"."""
        return {
            "effect": self.verb.value,
            "what": self.what,
            "why": self.why,
            "differences": list(self.differences),
        }


def plan(now: Document, new: Document, given: Sequence[Document], file: str) -> list[Effect]:
    """Return the effects of applying `new` over `now` on its parts and wired pods.

    `given`: other objects that the tiers need. Raise InputError if the two are different tiers, or
    if `now` is not valid.
    """
    for document in (now, new):
        if document.get("kind") != "KVOffloadTier":
            raise InputError(f"{file}: kind is {document.get('kind')}, expected KVOffloadTier")
    names = [_named(document, file) for document in (now, new)]
    if names[0] != names[1]:
        raise InputError(
            f"{file}: the documents are of {'/'.join(names[0])} and {'/'.join(names[1])}:"
            " compare two versions of one tier"
        )
    before, after = _planned(now, given), _planned(new, given)
    if isinstance(before, tier_plan.InvalidTier):
        lines = "\n".join(f"  {problem}" for problem in before.problems)
        raise InputError(f"{file}: the tier of --now is not valid:\n{lines}")
    if isinstance(after, tier_plan.InvalidTier):
        return [_refused(problem) for problem in after.problems]
    refused = [*_immutable(before, after), *_pinned(before, after)]
    if any(effect.verb is Verb.REFUSED for effect in refused):
        return refused
    return [*refused, *_parts(before.parts, after.parts), *_wiring(before, after)]


def _named(document: Document, file: str) -> tuple[str, str]:
    metadata = document.get("metadata") or {}
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    if not namespace or not name:
        raise InputError(f"{file}: set metadata.name and metadata.namespace")
    return namespace, name


def _planned(document: Document, given: Sequence[Document]) -> TierPlan | tier_plan.InvalidTier:
    """Return the plan of a tier; for a fleet, that of its child on any cluster."""
    namespace, name = _named(document, "")
    spec = dict(document.get("spec") or {})
    identity = (namespace, name, spec, encode(spec), BACKENDS)
    drafted = tier_plan.draft(*identity)
    if isinstance(drafted, tier_plan.InvalidTier):
        return drafted
    if drafted.is_fleet:
        del spec["clusterSelector"]
        spec["inferenceClusterRef"] = {"name": _CLUSTER}
        identity = (namespace, name, spec, encode(spec), BACKENDS)
        drafted = tier_plan.draft(*identity)
        if isinstance(drafted, tier_plan.InvalidTier):
            return drafted
    there, missing = {}, []
    for need in drafted.needs:
        wanted = (need.api_version, need.kind, need.namespace, need.object_name)
        found = next((d for d in given if _identity(d) == wanted), None)
        if found is None:
            what = f"{need.kind} {need.namespace}/{need.object_name}"
            missing.append(Problem(need.path, f"{what} is missing: give its file with --required"))
        else:
            there[need.name] = found
    if missing:
        return tier_plan.InvalidTier(tuple(missing))
    return tier_plan.plan(*identity, there)


def _identity(document: Document) -> tuple[str, ...]:
    metadata = document.get("metadata") or {}
    return (
        document.get("apiVersion", ""),
        document.get("kind", ""),
        metadata.get("namespace") or "",
        metadata.get("name") or "",
    )


def _refused(problem: Problem) -> Effect:
    return Effect(Verb.REFUSED, problem.path, problem.message)


def _immutable(before: TierPlan, after: TierPlan) -> Iterator[Effect]:
    """Yield what the API server refuses: the transition rules of the spec."""
    was, becomes = before.tier.spec.dump(), after.tier.spec.dump()
    for kind in type(after.tier.spec).__mro__:
        for rule in vars(kind).get("rules", ()):
            if rule.holds is None and was.get(rule.field) not in (None, becomes.get(rule.field)):
                yield Effect(Verb.REFUSED, f"spec.{rule.field}", rule.message)


def _pinned(before: TierPlan, after: TierPlan) -> Iterator[Effect]:
    """Yield what the function refuses because running engines depend on it."""
    for row, problem in pinned.changed(pinned.settings(before), after):
        verb = Verb.REFUSED if row.always else Verb.REFUSED_IN_USE
        yield Effect(verb, row.path, problem.message)
    running = {p.key: _version(p) for p in before.parts if _version(p)}
    refused = after.backend.refuses_change(after.tier, running)
    if refused is not None:
        yield Effect(Verb.REFUSED_IN_USE, refused.path, refused.message)


def _version(part: Part) -> str:
    labels = part.manifest.get("metadata", {}).get("labels") or {}
    return str(labels.get("app.kubernetes.io/version") or "")


def _parts(before: Iterable[Part], after: Iterable[Part]) -> Iterator[Effect]:
    was, becomes = ({part.key: part for part in parts} for parts in (before, after))
    for key in sorted({*was, *becomes}):
        if key not in becomes:
            why = "It stays on the cluster, unmanaged." if was[key].keep else ""
            yield Effect(Verb.REMOVED, key, why)
        elif key not in was:
            yield Effect(Verb.ADDED, key)
        else:
            old, new = was[key].manifest, becomes[key].manifest
            paths = tuple(_differing(old, new))
            if paths:
                yield _changed(key, new, paths)


def _changed(key: str, manifest: Document, paths: tuple[str, ...]) -> Effect:
    if manifest["kind"] not in _OF_PODS:
        return Effect(Verb.UPDATED, key, "", paths)
    if not any(path.startswith("spec.template") for path in paths):
        return Effect(Verb.UPDATED, key, "No pod restarts.", paths)
    return Effect(Verb.RESTARTED, key, _rollout(manifest), paths)


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


def _differing(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ, as deep as both have the path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differing(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _differing(left, right, f"{path}[{index}]")
    elif isinstance(old, list) and isinstance(new, list):
        gone = [_brief(item) for item in old if item not in new]
        came = [_brief(item) for item in new if item not in old]
        signed = [f"- {item}" for item in gone] + [f"+ {item}" for item in came]
        if old != new:
            yield f"{path}: {', '.join(signed) or 'in another order'}"
    elif old != new:
        yield f"{path}: {_brief(old)} -> {_brief(new)}"


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
    paths = tuple(_differing(was, becomes))
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


def as_tree(tier: Document, effects: Sequence[Effect]) -> Tree:
    """Return a tree for people: refusals first, then restarts, changes and what stays."""
    metadata: Mapping[str, Any] = tier.get("metadata") or {}
    root = Tree(
        Text.assemble(
            (f"KVOffloadTier {metadata.get('namespace')}/{metadata.get('name')}  ", "bold"),
            _verdict(effects),
        )
    )
    for verb in Verb:
        found = [effect for effect in effects if effect.verb is verb]
        if not found:
            continue
        branch = root.add(Text(verb.value, style="red" if verb in REFUSALS else "bold"))
        for effect in found:
            text = Text.assemble((effect.what, "cyan"), f": {effect.why}" if effect.why else "")
            node = branch.add(text)
            for difference in effect.differences:
                node.add(Text(difference))
    if any(effect.verb is Verb.REWIRED for effect in effects):
        spec: Mapping[str, Any] = tier.get("spec") or {}
        update = str((spec.get("wiring") or {}).get("update"))
        root.add(Text(_REWIRED_WHEN.get(update, _REWIRED_WHEN["OnChange"])))
    return root


# When wired engine pods get the new wiring, by `spec.wiring.update`.
_REWIRED_WHEN = {
    "OnChange": "Wired engine pods keep their wiring until their own template changes."
    " No engine restarts.",
    "Rolling": "Wired engine pods are replaced once the tier is ready, as"
    " spec.wiring.maxUnavailable allows.",
    "Pinned": "Wired engine pods keep their wiring, even when their own template changes."
    " No engine restarts.",
}


def _verdict(effects: Sequence[Effect]) -> tuple[str, str]:
    if any(effect.verb is Verb.REFUSED for effect in effects):
        return "✘ is refused; nothing changes", "red"
    if any(effect.verb is Verb.REFUSED_IN_USE for effect in effects):
        return "? is refused while consumers use the tier", "yellow"
    if not effects:
        return "✔ changes nothing that runs", "green"
    return "✔ can be applied", "green"
