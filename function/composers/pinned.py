"""Refuse changes of settings that running pods do not survive; keep them in the status."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from function.api.placement import Nodes, Toleration
from function.composers.tier_plan import InvalidTier, TierPlan
from function.composers.usage import Consumer
from function.contract import platforms
from function.contract.backend import Pinned
from function.edge.request import Call
from function.kube import access, naming, quantity
from function.kube.access import Json
from function.problems import Problem

_MOST = 32  # of the XRD's status.pinned
_CLAIMED = ("resources", "requests", "storage")
_EVERY_TAINT = "every taint"


def settings(
    plan: TierPlan,
    before: Mapping[str, str] | None = None,
    users: Collection[Consumer] | None = None,
) -> dict[str, str]:
    """Return the pinned settings for `status.pinned`, by path; absent values have no row.

    Namespaces that a tier lists no more stay while they have consumers: those were started for the
    list. So do levels: what a removed one holds is read again when it comes back. `before`: the
    settings as they were kept; `users`: None while unresolved.
    """
    used = None if users is None else _used(users)
    found = {}
    for row in _rows(plan):
        value = row.value
        if row.namespaces and not value:
            was = (before or {}).get(row.path, "").split()
            value = " ".join(n for n in was if n != row.unset and (used is None or n in used))
        if value:
            found[row.path] = value
    gone = [path for path in before or {} if "[" in path and path not in found]
    kept_levels = gone[: _MOST - len(found)] if users is None or users else []
    return found | {path: (before or {})[path] for path in kept_levels}


def is_settled(plan: TierPlan, before: Mapping[str, str]) -> bool:
    """Return whether, for any users, no setting in force may change or be forgotten now.

    `before`: the settings in force; {} where nothing was pinned yet.
    """
    return not before or settings(plan, before) == before == settings(plan, before, ())


def problems(call: Call, plan: TierPlan, users: Collection[Consumer]) -> list[Problem]:
    """Return every setting of the spec that cannot replace the one in force."""
    found = changed(kept(call), plan, _used(users))
    return [problem for row, problem in found if row.always or users]


def of_claims(before: Callable[[str], tuple[object, object]], plan: TierPlan) -> list[Problem]:
    """Return what Kubernetes never applies to a claim that exists, with or without users.

    `before`: the spec of a claim as its Object has it and as its cluster has it, by the part's key.
    """
    found = []
    for part in plan.parts:
        if part.manifest["kind"] != "PersistentVolumeClaim":
            continue
        new, was, there = part.manifest["spec"], *map(access.mapping, before(part.key))
        if why := _never_applied(was, there, new):
            name = part.manifest["metadata"]["name"]
            said = f"claim {name} {why}. Set it back, or make a second tier"
            found.append(Problem(f"spec.{plan.backend.field}", f"{said} (docs/move-a-tier.md)"))
    return found


def _never_applied(was: Json, there: Json, new: Json) -> str:
    """Return why a claim that the cluster has stays as it is, "" where it can be edited.

    The cluster fills in the class; only its administrator may have grown what it has.
    """
    then, now = access.at(was, *_CLAIMED), access.at(new, *_CLAIMED)
    if all(_is_smaller(now, access.at(each, *_CLAIMED)) for each in (was, there)):
        return f"cannot shrink from {then} to {now}: Kubernetes only grows claims"
    old, real, wanted = (access.text(each, "storageClassName") for each in (was, there, new))
    if real and wanted != old and wanted != real and old in ("", real):
        default = "the default class"
        return (
            f"cannot change from {old or default} to {wanted or default}: Kubernetes keeps the"
            " class of a claim"
        )
    return ""


def _is_smaller(one: object, other: object) -> bool:
    try:
        return bool(one and other) and quantity.parse(one) < quantity.parse(other)
    except (ValueError, TypeError):
        return False


def reminded(call: Call, problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems of a spec that is no plan; those of pinned settings say what these were.

    Who mended the value alone would be refused once more.
    """
    before = kept(call)
    late = ". It was {}, and cannot change while consumers use the tier"
    return [
        Problem(each.path, each.message + late.format(before[each.path]))
        if before.get(each.path)
        else each
        for each in problems
    ]


def kept(call: Call) -> dict[str, str]:
    """Return the settings in force, from the tier's status."""
    before = call.composite_value("status", "pinned")
    return before if isinstance(before, dict) else {}


def unjudged(tier: Mapping[str, Any], planned: TierPlan | InvalidTier) -> str:
    """Return a sentence on the edit of a ready tier that it has not judged yet, or will refuse.

    "" for none. What runs is not what the tier's spec says while there is one.
    """
    if isinstance(planned, InvalidTier):
        paths = {problem.path for problem in planned.problems}
    else:
        paths = {row.path for row, _ in changed(access.mapping(tier, "status", "pinned"), planned)}
    return f"the edit of {', '.join(sorted(paths))} is not judged yet." if paths else ""


def _used(users: Collection[Consumer]) -> set[str] | None:
    """Return the namespaces that have consumers; None where any may have.

    Who uses a tier through another one cannot be seen here.
    """
    through = any(user.kind == "KVOffloadTier" for user in users)
    return None if through else {user.namespace for user in users}


def changed(
    before: Mapping[str, str], plan: TierPlan, used: Collection[str] | None = None
) -> list[tuple[Pinned, Problem]]:
    """Return the pinned settings that differ from `before`, each with its problem.

    `used`: the namespaces that have consumers; None where any may.
    """
    out = []
    for row in _rows(plan):
        was = before.get(row.path)
        if was is not None and row.namespaces:
            if not row.value:
                continue
            gone = sorted(set(was.split()) - {*row.value.split(), row.unset})
            gone = [name for name in gone if used is None or name in used]
            if gone:
                said = f"cannot lose {', '.join(gone)} while consumers there use it: {row.why}"
                out.append((row, Problem(row.path, said)))
        elif was not in (None, row.value, row.unset) and not row.admits(_widened(was, row)):
            said = (
                f"cannot change from {was} to {row.value}: {row.why}. Set it back, or make a second"
                " tier and move its consumers (docs/move-a-tier.md)"
            )
            out.append((row, Problem(row.path, said)))
    return out


def _rows(plan: TierPlan) -> tuple[Pinned, ...]:
    why = "what runs would lose its blocks, and engines their connector"
    needs_agent = plan.description.colocated_with_engines
    own = plan.backend.pinned(plan.tier)
    nodes = _of_nodes(plan.tier.spec.nodes) if needs_agent else ()
    return tuple(
        row if len(row.value) <= row.LONGEST else replace(row, value=_fitted(row.value))
        for row in (Pinned("spec.backend", plan.tier.spec.backend, why), *nodes, *own)
    )


def _of_nodes(nodes: Nodes) -> Iterator[Pinned]:
    """Yield where engines that cannot do without an agent on their node find one.

    A DaemonSet deletes its pod at once on a node that its selector leaves, and does not make it
    again on one with a taint that it tolerates no longer.
    """
    why = "running engines on nodes that it leaves would lose their agent; it may only"
    selector = sorted(f"{key}={value}" for key, value in nodes.selector.items())
    every = "every node"
    value = Pinned.SEPARATOR.join(selector) or every
    yield Pinned("spec.nodes.selector", value, f"{why} lose labels", may="lose", widest=every)
    own, none = nodes.tolerations, "no taint"
    taints = sorted(_taints(platforms.usual_tolerations() if own is None else own))
    value = _EVERY_TAINT if _EVERY_TAINT in taints else Pinned.SEPARATOR.join(taints) or none
    path, gains = "spec.nodes.tolerations", f"{why} gain some"
    yield Pinned(path, value, gains, unset=none, may="gain", widest=_EVERY_TAINT)


def _taints(tolerations: Iterable[Toleration]) -> Iterator[str]:
    """Yield what is tolerated as one writes taints: KEY=VALUE:EFFECT."""
    for each in tolerations:
        value = f"={each.value or ''}" if each.operator == "Equal" else ""
        effect = f":{each.effect}" if each.effect else ""
        every = f"every key{effect}" if effect else _EVERY_TAINT
        ends = "" if each.toleration_seconds is None else f" for {each.toleration_seconds} s"
        yield (f"{each.key}{value}{effect}" if each.key else every) + ends


def _widened(before: str, row: Pinned) -> str:
    """Return tolerations with the new one in the place of each that it covers."""
    if row.may != "gain":
        return before
    now = row.value.split(row.SEPARATOR)
    taints = before.split(row.SEPARATOR)
    return row.SEPARATOR.join(min(_wider(each).intersection(now), default=each) for each in taints)


def _wider(taint: str) -> set[str]:
    """Return the tolerations of at least a taint, each as `_taints` writes it."""
    tolerated, *ends = taint.partition(" for ")
    key_value, *effect = tolerated.partition(":")
    keys = (key_value, key_value.partition("=")[0], "every key")
    effects, times = ("".join(effect), ""), ("".join(ends), "")
    return {"".join(each) for each in product(keys, effects, times)}


def _fitted(value: str) -> str:
    """Shorten a value to what the status may hold; a longer one would fail all of the status."""
    return f"{value[: Pinned.LONGEST - 20]}... {naming.digest(value)}"
