"""Tell what an edit of a tier would do before it is applied, for `kv-offload plan`.

Two documents of one tier become two plans, as the tier's composer makes them; their parts, pinned
settings and the wiring of reference engines are compared. Nothing is looked up: effects that depend
on whether the tier is in use say so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text
from rich.tree import Tree

from function.backends.registry import BACKENDS
from function.composers import overrides, pinned, tier_plan
from function.composers.fleet_rollout import stamped
from function.composers.tier_plan import TierPlan
from function.contract.backend import Part
from function.edge.structs import encode
from function.problems import Problem
from kv_offload.render import fleet_plan
from kv_offload.render.effects import REFUSALS, Document, Effect, Verb, agent_keys, compare
from kv_offload.render.files import InputError

# Stands for each cluster of a fleet.
_CLUSTER = "any"


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
    refused = _judged(now, new, given, file)
    if any(effect.verb is Verb.REFUSED for effect in refused):
        return refused
    return [
        *refused,
        *fleet_plan.shut_out(now, new, given),
        *fleet_plan.membership(now, new, given),
        *_changes(now, new, given),
    ]


def _judged(now: Document, new: Document, given: Sequence[Document], file: str) -> list[Effect]:
    """Return what refuses the edit. Raise InputError if `now` is not valid."""
    before, after = _planned(now, given), _planned(new, given)
    if isinstance(before, tier_plan.InvalidTier):
        lines = "\n".join(f"  {problem}" for problem in before.problems)
        raise InputError(f"{file}: the tier of --now is not valid:\n{lines}")
    if isinstance(after, tier_plan.InvalidTier):
        return [_refused(problem) for problem in after.problems]
    together = fleet_plan.conflicts(now, new, given)
    return [*together, *_immutable(before, after), *_pinned(before, after)]


def _changes(now: Document, new: Document, given: Sequence[Document]) -> list[Effect]:
    """Return what changes where the tier stays: on its cluster, or on each of a fleet's.

    Clusters whose overrides are the same are compared once.
    """
    stay = fleet_plan.staying(now, new, given)
    found: dict[Effect, list[str]] = {}
    restarts: dict[str, bool] = {}
    groups: dict[tuple[tuple[int, ...], ...], list[str]] = {}
    for name, labels in stay.items():
        places = tuple(
            overrides.matching(document.get("spec") or {}, labels) for document in (now, new)
        )
        groups.setdefault(places, []).append(name)
    for (was, becomes), names in (groups or {((), ()): []}).items():
        before, after = _planned(now, given, was), _planned(new, given, becomes)
        if isinstance(before, tier_plan.InvalidTier) or isinstance(after, tier_plan.InvalidTier):
            continue  # an override that is not valid is refused before
        effects = list(compare(before, after))
        lost = {e.what for e in effects if e.verb is Verb.RESTARTED} & agent_keys(before)
        restarts |= dict.fromkeys(names, bool(lost))
        for effect in effects:
            found.setdefault(effect, []).extend(names)
    everywhere = len(stay)
    changes = [
        replace(effect, clusters=tuple(sorted(names)) if len(names) < everywhere else ())
        for effect, names in found.items()
    ]
    return [*fleet_plan.turns(now, new, given, restarts), *changes]


def _named(document: Document, file: str) -> tuple[str, str]:
    metadata = document.get("metadata") or {}
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    if not namespace or not name:
        raise InputError(f"{file}: set metadata.name and metadata.namespace")
    return namespace, name


def _planned(
    document: Document, given: Sequence[Document], positions: Sequence[int] = ()
) -> TierPlan | tier_plan.InvalidTier:
    """Return the plan of a tier; for a fleet, of its child on a cluster with these overrides."""
    namespace, name = _named(document, "")
    spec = dict(document.get("spec") or {})
    identity = (namespace, name, spec, encode(spec), BACKENDS)
    drafted = tier_plan.draft(*identity)
    if isinstance(drafted, tier_plan.InvalidTier):
        return drafted
    if drafted.is_fleet:
        spec = stamped(overrides.merged(type(drafted.tier.spec), spec, positions))
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
            where = f" (on {', '.join(effect.clusters)})" if effect.clusters else ""
            why = f": {effect.why}" if effect.why else ""
            text = Text.assemble((effect.what, "cyan"), where, why)
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
