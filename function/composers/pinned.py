"""Settings that cannot change under what runs: kept in the status, and held against the spec."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from function.composers.tier_plan import InvalidTier, TierPlan
from function.composers.usage import Consumer
from function.contract.backend import Pinned
from function.edge.request import Call
from function.kube import access, naming
from function.problems import Problem


def settings(
    plan: TierPlan,
    before: Mapping[str, str] | None = None,
    users: Collection[Consumer] | None = None,
) -> dict[str, str]:
    """The pinned settings as `status.pinned` keeps them, by path; what has no value has no row.

    Namespaces that a tier lists no more stay while they have consumers: those were started for the
    list. `before`: the settings as they were kept; `users`: None where nobody has looked.
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
    return found


def problems(call: Call, plan: TierPlan, users: Collection[Consumer]) -> list[Problem]:
    """What of the spec cannot take the place of what is in force; all of it at once."""
    found = changed(kept(call), plan, _used(users))
    return [problem for row, problem in found if row.always or users]


def kept(call: Call) -> dict[str, str]:
    """The settings in force, as the tier's status has them."""
    before = call.composite_value("status", "pinned")
    return before if isinstance(before, dict) else {}


def unjudged(tier: Mapping[str, Any], planned: TierPlan | InvalidTier) -> str:
    """Which edit of a ready tier (its document, and what its spec means) it has not judged yet, or
    will refuse, as a sentence; "" for none. What runs is not what its spec says then.
    """
    if isinstance(planned, InvalidTier):
        paths = {problem.path for problem in planned.problems}
    else:
        paths = {row.path for row, _ in changed(access.mapping(tier, "status", "pinned"), planned)}
    return f"the edit of {', '.join(sorted(paths))} is not judged yet." if paths else ""


def _used(users: Collection[Consumer]) -> set[str] | None:
    """The namespaces that have consumers; None where any may: who uses a tier through another one
    cannot be seen here.
    """
    through = any(user.kind == "KVOffloadTier" for user in users)
    return None if through else {user.namespace for user in users}


def changed(
    before: Mapping[str, str], plan: TierPlan, used: Collection[str] | None = None
) -> list[tuple[Pinned, Problem]]:
    """The pinned settings that the plan has otherwise than `before`, with what to say of each.

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
        elif was is not None and was not in (row.value, row.unset):
            said = (
                f"cannot change from {was} to {row.value}: {row.why}. Set it back, or make a second"
                " tier and move its consumers"
            )
            out.append((row, Problem(row.path, said)))
    return out


def _rows(plan: TierPlan) -> tuple[Pinned, ...]:
    why = "what runs would lose its blocks, and engines their connector"
    own = plan.backend.pinned(plan.tier)
    rows = (Pinned("spec.backend", plan.tier.spec.backend, why), *own)
    return tuple(replace(row, value=_fitted(row.value)) for row in rows)


def _fitted(value: str) -> str:
    """A value as the status may hold it: one that it may not would fail all of the status."""
    if len(value) <= Pinned.LONGEST:
        return value
    return f"{value[: Pinned.LONGEST - 20]}... {naming.digest(value)}"
