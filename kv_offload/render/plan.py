"""Tell what an edit of a tier would do before it is applied, for `kv-offload plan`.

Two documents of one tier become two plans, as the tier's composer makes them; their parts, pinned
settings and the wiring of reference engines are compared. Nothing is looked up: effects that depend
on whether the tier is in use say so.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.text import Text
from rich.tree import Tree

from function import names
from function.api.tier import TierSpec
from function.composers import overrides, pinned, tier_plan
from function.composers.tier_plan import TierPlan
from function.contract.backend import Part
from function.kube import access
from function.problems import Problem
from kv_offload.render import fleet_plan, meetings
from kv_offload.render.effects import REFUSALS, Document, Effect, Verb, agent_keys, compare
from kv_offload.render.files import InputError
from kv_offload.render.planned import CLUSTER, named, planned


def plan(now: Document, new: Document, given: Sequence[Document], file: str) -> list[Effect]:
    """Return the effects of applying `new` over `now` on its parts and wired pods.

    `given`: other objects that the tiers need. Raise InputError if the two are different tiers, or
    if `now` is not valid.
    """
    titles = []
    for document, place in (now, "--now"), (new, file):
        if document.get("kind") != "KVOffloadTier":
            raise InputError(f"{place}: kind is {document.get('kind')}, expected KVOffloadTier")
        titles.append(named(document, place))
    if titles[0] != titles[1]:
        raise InputError(
            f"{file}: the documents are of {'/'.join(titles[0])} and {'/'.join(titles[1])}:"
            " compare two versions of one tier"
        )
    refused = _judged(now, new, given)
    if any(effect.verb is Verb.REFUSED for effect in refused):
        return refused
    return [
        *refused,
        *fleet_plan.unseen(now, new, given),
        *fleet_plan.shut_out(now, new, given),
        *fleet_plan.membership(now, new, given),
        *_conflicts(new, given),
        *_changes(now, new, given),
    ]


def _judged(now: Document, new: Document, given: Sequence[Document]) -> list[Effect]:
    """Return what refuses the edit. Raise InputError if `now` is not valid."""
    before, after = planned(now, given), planned(new, given)
    if isinstance(before, tier_plan.InvalidTier):
        lines = "\n".join(f"  {problem}" for problem in before.problems)
        raise InputError(f"--now: the tier is not valid:\n{lines}")
    if isinstance(after, tier_plan.InvalidTier):
        return [_refused(problem) for problem in after.problems]
    together = list(fleet_plan.conflicts(now, new, given))
    together += _impossible(new, given, {name for each in together for name in each.clusters})
    if fleet_plan.is_fleet(now) != fleet_plan.is_fleet(new):
        field = "clusterSelector" if fleet_plan.is_fleet(now) else "inferenceClusterRef"
        (rule,) = (r for r in TierSpec.rules if r.holds is None and r.field == field)
        return [Effect(Verb.REFUSED, f"spec.{rule.field}", rule.message)]
    return [*together, *_immutable(before, after), *_pinned_anywhere(now, new, given)]


def _impossible(new: Document, given: Sequence[Document], known: set[str]) -> Iterator[Effect]:
    """Yield what no child can have, of overrides that are valid as such: an object is missing.

    `known`: clusters that another refusal names.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, labels in fleet_plan.clusters(new, given).items():
        if name not in known:
            positions = overrides.matching(new.get("spec") or {}, labels)
            groups.setdefault(positions, []).append(name)
    for positions, members in groups.items():
        made = planned(new, given, positions)
        if isinstance(made, tier_plan.InvalidTier):
            for problem in made.problems:
                yield replace(_refused(problem), clusters=tuple(sorted(members)))


def _conflicts(new: Document, given: Sequence[Document]) -> Iterator[Effect]:
    """Yield what the edited tier and another one of its cluster cannot both have.

    Its own document as it is, and a fleet's children, are given too, and are no others.
    """
    place, name = named(new, "")

    def is_own(document: Document) -> bool:
        labels = access.texts(document, "metadata", "labels")
        known = access.text(document, "metadata", "name"), labels.get(names.LABEL_FLEET)
        is_tier = document.get("kind") == "KVOffloadTier"
        return is_tier and access.text(document, "metadata", "namespace") == place and name in known

    others = [document for document in given if not is_own(document)]
    for conflict in meetings.conflicts([*others, new]):
        both = conflict.first, conflict.second
        if f"{place}/{name}" in both:
            (other,) = (each for each in both if each != f"{place}/{name}")
            yield Effect(Verb.CONFLICTS, other, conflict.message)


def _changes(now: Document, new: Document, given: Sequence[Document]) -> list[Effect]:
    """Return what changes where the tier stays: on its cluster, or on each of a fleet's.

    Clusters whose overrides are the same are compared once.
    """
    found: list[tuple[Effect, list[str]]] = []
    restarts: dict[str, bool] = {}
    for members, was, after in _groups(now, new, given):
        before = was.plan
        effects = list(compare(before, after))
        lost = {e.what for e in effects if e.verb is Verb.RESTARTED} & agent_keys(before)
        restarts |= dict.fromkeys(members, bool(lost))
        found += [(effect, members) for effect in effects]
    changes = _together(found, len(fleet_plan.staying(now, new, given)))
    return [*_moved(now, new), *fleet_plan.turns(now, new, given, restarts), *changes]


def _moved(now: Document, new: Document) -> Iterator[Effect]:
    """Yield that engines move which edits before this one left as they were."""
    path = "spec", "wiring", "update"
    was, becomes = (access.text(document, *path) for document in (now, new))
    if becomes == "Rolling" != was:
        yield Effect(Verb.REWIRED, ".".join(path), _MOVED)


@dataclass(frozen=True)
class _Running:
    """What a tier runs on some clusters. `pinned`: the settings that are in force there."""

    plan: TierPlan
    pinned: Mapping[str, str]


def _groups(
    now: Document, new: Document, given: Sequence[Document]
) -> Iterator[tuple[list[str], _Running, TierPlan]]:
    """Yield clusters that run the same and get the same, with both: one group of a single tier.

    A child that is given runs what its own spec says: an edit may have reached it, or not yet.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    runs: dict[str, tuple[Document, tuple[int, ...]]] = {"": (now, ())}
    there = fleet_plan.children(now, given)
    for name, labels in fleet_plan.staying(now, new, given).items():
        was, becomes = (overrides.matching(it.get("spec") or {}, labels) for it in (now, new))
        child = there.get(name)
        document, positions = (now, was) if child is None else (_alone(now, child), ())
        key = repr(positions) if child is None else json.dumps(document, sort_keys=True)
        runs[key] = document, positions
        groups.setdefault((key, becomes), []).append(name)
    for (key, becomes), members in (groups or {("", ()): []}).items():
        before, after = planned(runs[key][0], given, runs[key][1]), planned(new, given, becomes)
        if isinstance(before, tier_plan.InvalidTier) or isinstance(after, tier_plan.InvalidTier):
            continue  # an override that is not valid is refused before
        kept = access.texts(runs[key][0], "status", "pinned") or pinned.settings(before)
        yield members, _Running(before, kept), after


def _alone(fleet: Document, child: Document) -> Document:
    """Return a child under its fleet's name, with what of its status is in force."""
    spec = {**access.mapping(child, "spec"), "inferenceClusterRef": {"name": CLUSTER}}
    kept = access.mapping(child, "status", "pinned")
    return {**fleet, "spec": spec, "status": {"pinned": kept}}


def _together(found: Iterable[tuple[Effect, list[str]]], everywhere: int) -> list[Effect]:
    """Return equal effects once, with their clusters where those are not all."""
    clusters: dict[Effect, list[str]] = {}
    for effect, members in found:
        clusters.setdefault(effect, []).extend(members)
    return [
        replace(effect, clusters=tuple(sorted(where)) if len(where) < everywhere else ())
        for effect, where in clusters.items()
    ]


def _refused(problem: Problem) -> Effect:
    return Effect(Verb.REFUSED, problem.path, problem.message)


def _immutable(before: TierPlan, after: TierPlan) -> Iterator[Effect]:
    """Yield what the API server refuses: the transition rules of the spec."""
    was, becomes = before.tier.spec.dump(), after.tier.spec.dump()
    for kind in type(after.tier.spec).__mro__:
        for rule in vars(kind).get("rules", ()):
            if rule.holds is None and was.get(rule.field) not in (None, becomes.get(rule.field)):
                yield Effect(Verb.REFUSED, f"spec.{rule.field}", rule.message)


def _pinned_anywhere(now: Document, new: Document, given: Sequence[Document]) -> list[Effect]:
    """Return what the function refuses of the edit, on any cluster: overrides can pin too."""
    found = [
        (effect, members)
        for members, was, after in _groups(now, new, given)
        for effect in _pinned(was, after)
    ]
    return _together(found, len(fleet_plan.staying(now, new, given)))


def _pinned(was: _Running, after: TierPlan) -> Iterator[Effect]:
    """Yield what the function refuses because running engines depend on it."""
    for row, problem in pinned.changed(was.pinned, after):
        verb = Verb.REFUSED if row.always else Verb.REFUSED_IN_USE
        yield Effect(verb, row.path, problem.message)
    claims = {p.key: p.manifest.get("spec") or {} for p in was.plan.parts}
    # A cluster gives a class to a claim without one.
    there = {key: {"storageClassName": "its default", **spec} for key, spec in claims.items()}
    for problem in pinned.of_claims(lambda key: (claims.get(key), there.get(key)), after):
        yield Effect(Verb.REFUSED, problem.path, problem.message)
    running = {p.key: _version(p) for p in was.plan.parts if _version(p)}
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


_MOVED = "Also those that earlier edits left with the wiring that they had."
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
    if any(effect.verb is Verb.NOT_KNOWN for effect in effects):
        return "? the clusters are not given: what it changes on them is not known", "yellow"
    if any(effect.verb is Verb.SELECTS_NONE for effect in effects):
        return "? selects none of the given clusters", "yellow"
    if any(effect.verb is Verb.CONFLICTS for effect in effects):
        return "✘ conflicts with another tier of its cluster, which it names", "red"
    if not effects:
        return "✔ changes nothing that runs", "green"
    return "✔ can be applied", "green"
