"""Modelplane's deployments and shapes of ours, with every tier: what is wired, and what stays.

The verdicts of a pin are a golden, `verdicts/PIN.yaml`: {deployment: {tier: reason}}. They are
decisions: read the difference before it is written anew.
"""

from pathlib import Path

import pytest

from kv_offload.render import emit
from tests.modelplane import fleet, rows
from tests.modelplane.rows import Bench

VERDICTS = Path(__file__).parent / "verdicts"
TIERS = tuple(fleet.TIERS)


@pytest.fixture(scope="module")
def every(bench: Bench) -> dict[str, dict[str, str]]:
    """The verdict of each deployment with each tier; what else must hold is asserted on the way."""
    return {
        name: {tier: _one(bench, name, deployment, tier) for tier in TIERS}
        for name, deployment in bench.checkout.deployments().items()
    }


def _one(bench: Bench, name: str, deployment: rows.Document, tier: str) -> str:
    row = rows.row(bench, deployment, tier, {fleet.TIER: tier})
    alone, first = row.alone(), row.both()
    where = f"{name} with {tier}"
    _nothing_but_engine_pods(alone, first, where)
    again = row.both(first)
    assert emit.to_yaml(again.composed) == emit.to_yaml(first.composed), f"{where}: second pass"
    assert all(again.ready.values()), f"{where}: {again.ready}"
    _unwired_on_purpose(bench, deployment, tier, where)
    return _verdict(first, where)


def _verdict(rendered: rows.reconcile.Rendered, where: str) -> str:
    """The reason of the condition, which agrees with its status and says something."""
    said = rows.condition(rendered)
    assert said, f"{where}: no condition"
    assert said["status"] == str(said["reason"] == "Wired"), f"{where}: {said}"
    assert said["message"], f"{where}: {said['reason']} without a word"
    return str(said["reason"])


def _nothing_but_engine_pods(
    alone: rows.reconcile.Rendered, both: rows.reconcile.Rendered, where: str
) -> None:
    """Keys, kinds, names and all but engine pods are as Modelplane left them; or engines wait."""
    theirs, found = rows.by_key(alone), rows.by_key(both)
    engines = rows.engines(alone)
    wired = _verdict(both, where) == "Wired"
    missing = theirs.keys() - found.keys()
    assert missing <= (set() if wired else engines), f"{where}: {sorted(missing)} are gone"
    for key, document in found.items():
        if key in theirs:
            assert rows.others(document) == rows.others(theirs[key]), f"{where}: {key}"
            assert both.ready[key] == alone.ready[key], f"{where}: readiness of {key}"
        else:
            assert rows.ours(key), f"{where}: {key} is new"
    changed = {key for key in theirs.keys() & found.keys() if found[key] != theirs[key]}
    assert changed == (engines if wired else set()), f"{where}: changed {sorted(changed)}"


def _unwired_on_purpose(bench: Bench, deployment: rows.Document, tier: str, where: str) -> None:
    row = rows.row(bench, deployment, tier, {fleet.TIER: tier, fleet.POLICY: "Off"})
    alone, off = row.alone(), row.both()
    assert emit.to_yaml(off.composed) == emit.to_yaml(alone.composed), f"{where}: Off"
    assert rows.condition(off)["reason"] == "TurnedOff", f"{where}: {rows.condition(off)}"


def test_verdict_of_each_deployment(
    bench: Bench, every: dict[str, dict[str, str]], request: pytest.FixtureRequest
) -> None:
    path = VERDICTS / f"{bench.checkout.pin.name}.yaml"
    text = emit.to_yaml([every])
    if request.config.getoption("--update"):
        path.write_text(text)
    assert path.read_text() == text


def test_deployment_without_request_is_unchanged(bench: Bench) -> None:
    for name, deployment in bench.checkout.deployments().items():
        row = rows.row(bench, deployment, TIERS[0], {})
        alone, both = row.alone(), row.both()
        assert emit.to_yaml(both.composed) == emit.to_yaml(alone.composed), name
        assert not rows.condition(both), name
