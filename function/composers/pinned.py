"""Settings that cannot change under what runs: kept in the status, and held against the spec."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from function.composers.tier_plan import TierPlan
from function.composers.usage import Consumer
from function.contract.backend import Pinned
from function.edge.request import Call
from function.kube import naming
from function.problems import Problem

# The XRD's own limit.
_MOST = 512


def settings(plan: TierPlan) -> dict[str, str]:
    """The pinned settings as `status.pinned` keeps them, by path."""
    return {row.path: row.value for row in _rows(plan)}


def problems(call: Call, plan: TierPlan, users: Collection[Consumer]) -> list[Problem]:
    """What of the spec cannot take the place of what is in force; all of it at once."""
    before = call.composite_value("status", "pinned")
    if not isinstance(before, dict):
        return []
    # Who uses a tier through another one cannot be seen here.
    through = any(user.kind == "KVOffloadTier" for user in users)
    used = None if through else {user.namespace for user in users}
    return [problem for row, problem in changed(before, plan, used) if row.always or users]


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
    if len(value) <= _MOST:
        return value
    return f"{value[: _MOST - 20]}... {naming.digest(value)}"
