"""Steady state costs nothing: no write, no event, and as many calls as the TTL says."""

import time

from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.steady import DEPLOYMENTS, TIERS, Window, events, versions

STEADY_SECONDS = 120
# An XR that is Ready asks again after 300 s; while its breaker is open, after 30 s.
MAX_CALLS_EACH = 2 * (STEADY_SECONDS // 30 + 1)


def test_steady_state_writes_nothing_for_two_minutes(
    world: Fleet, steady: Window, summary: Summary
):
    assert len(steady.versions) >= 20
    time.sleep(max(0.0, STEADY_SECONDS - steady.seconds))
    after = versions(world)
    assert {k: v for k, v in after.items() if steady.versions.get(k) != v} == {}
    assert set(steady.versions) == set(after)
    assert events(world) == steady.events
    composites = len(TIERS) + len(DEPLOYMENTS) + len(world.rig.workloads)
    spent = world.calls() - steady.calls
    summary.note(
        f"steady for {steady.seconds:.0f} s: {len(after)} objects stood still,"
        f" {spent} calls for {composites} composites"
    )
    assert spent <= MAX_CALLS_EACH * composites * (steady.seconds / STEADY_SECONDS)
