"""Refuse changes of settings that running pods do not survive; keep them in the status."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from function.api.placement import Nodes, Toleration
from function.composers.tier_plan import InvalidTier, TierPlan
from function.composers.usage import Consumer
from function.contract import platforms
from function.contract.backend import Pinned
from function.edge.request import Call
from function.kube import access, naming, quantity
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


def of_claims(before: Callable[[str], object], plan: TierPlan) -> list[Problem]:
    """Return what Kubernetes never applies to a claim that exists, whoever uses the tier.

    `before`: the spec that a part's manifest has now, by the part's key; None where it has none.
    """
    found = []
    for part in plan.parts:
        was = before(part.key) if part.manifest["kind"] == "PersistentVolumeClaim" else None
        if not isinstance(was, dict):
            continue
        new, why = part.manifest["spec"], ""
        sizes = [quantity.parse(access.at(each, *_CLAIMED) or 0) for each in (was, new)]
        classes = [access.text(each, "storageClassName") for each in (was, new)]
        if sizes[1] < sizes[0]:
            now, then = (access.at(each, *_CLAIMED) for each in (new, was))
            why = f"cannot shrink from {then} to {now}: Kubernetes only grows claims"
        elif classes[0] != classes[1]:
            now, then = (name or "the default class" for name in reversed(classes))
            why = f"cannot change from {then} to {now}: Kubernetes keeps the class of a claim"
        if why:
            name = part.manifest["metadata"]["name"]
            said = f"claim {name} {why}. Set it back, or make a second tier"
            found.append(Problem(f"spec.{plan.backend.field}", f"{said} (docs/move-a-tier.md)"))
    return found


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
        elif was not in (None, row.value, row.unset) and not row.admits(was):
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
        yield f"{each.key}{value}{effect}" if each.key else every


def _fitted(value: str) -> str:
    """Shorten a value to what the status may hold; a longer one would fail all of the status."""
    return f"{value[: Pinned.LONGEST - 20]}... {naming.digest(value)}"
