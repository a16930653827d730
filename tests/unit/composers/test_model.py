"""Every order of a few acts in a small fleet; `make model` goes deeper."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from function.api.tier import RolloutStrategy
from function.composers import fleet, provider_config_guard, rollout, waves
from tests.world import model, usages_model


@pytest.mark.parametrize("most", [1, 2])
def test_every_order_of_four_acts_keeps_the_rules_of_waves(most: int) -> None:
    states, depth = model.explore(model.fleet_at_rest(), model.acts, model.RULES, most, 4)
    assert (states, depth) == (681, 4)


@pytest.mark.parametrize(("most", "states"), [(1, 62), (2, 196)])
def test_every_order_of_all_acts_keeps_the_rules_of_turns(most: int, states: int) -> None:
    begin, rules = model.Consumers(), model.CONSUMER_RULES
    assert model.explore(begin, model.consumer_acts, rules, most, 100)[0] == states


def test_every_order_of_four_acts_keeps_the_rules_of_usages() -> None:
    begin, rules = usages_model.Fleet(), usages_model.RULES
    assert model.explore(begin, usages_model.acts, rules, 1, 4) == (594, 4)


# What is said -> what is broken on purpose, and by what.
PLANTED_USAGES: dict[str, tuple[Any, str, Any]] = {
    "and it is used": (fleet, "is_in_use", lambda call, key="": not key),
    "removal is Keep": (fleet._FleetComposer, "_is_kept", lambda *_: False),
    "without a guard": (provider_config_guard, "in_force", lambda _, clusters: set(clusters)),
    "the guard goes before": (fleet._FleetComposer, "_lingering", lambda _: set()),
    "all_go_in_the_end": (fleet._FleetComposer, "_lingering", lambda _: None),
    "what_is_used_protects_the_fleet": (fleet._FleetComposer, "protect", lambda _: None),
}


@pytest.mark.parametrize("rule", PLANTED_USAGES)
def test_a_planted_fault_of_usages_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED_USAGES[rule])
    usages_model.called.cache_clear()
    begin, first = usages_model.Fleet(), usages_model.RULES[:1]
    rules = [it for it in usages_model.RULES if it.__name__ == rule] or first
    with pytest.raises(model.Broken, match=rule):
        model.explore(begin, usages_model.acts, rules, 1, 5)
    usages_model.called.cache_clear()


_decide = waves.decide


def _blind(members: Sequence[waves.FleetCluster], rollout: RolloutStrategy) -> waves.Decision:
    """Decide without seeing what fails."""
    return _decide([replace(m, failed=False, lost=False) for m in members], rollout)


def _idle(members: Sequence[waves.FleetCluster], rollout: RolloutStrategy) -> waves.Decision:
    """Decide, and let nobody move."""
    return replace(_decide(members, rollout), turns=frozenset())


# The rule that says it -> what is broken on purpose.
PLANTED: dict[str, tuple[str, Any]] = {
    "one_cluster_proves_an_edit": ("_waves", lambda members, rollout: [waves._ALL]),
    "the edit went on": ("decide", _blind),
    "it_ends_when_all_work": ("decide", _idle),
    "a second cluster at risk": ("excuses", lambda *_: True),
}


@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_fault_of_waves_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, *PLANTED[rule])
    model.called.cache_clear()
    with pytest.raises(model.Broken, match=rule):
        model.explore(model.fleet_at_rest(), model.acts, model.RULES, 2, 6)
    model.called.cache_clear()


def test_a_planted_fault_of_turns_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "needed", lambda *_: 3)
    with pytest.raises(model.Broken, match="more turns than may move"):
        model.explore(model.Consumers(), model.consumer_acts, model.CONSUMER_RULES, 1, 4)
