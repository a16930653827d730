"""Decisions on shapes of public workloads, by tier, against judged.py."""

from copy import deepcopy

import pytest

from function import workloads
from tests.corpus.corpus import starts
from tests.corpus.judged import (
    CONNECTORS,
    NO_WORKLOAD,
    PAGE,
    SHAPES,
    TIERS,
    WIRED,
    planned,
    taken_off,
    templates,
    text,
    verdict,
    wired,
)

PLANS = {tier: planned(tier) for tier in TIERS}
ON = [(n, t) for n, s in SHAPES.items() for t in TIERS if s["verdicts"][t] == WIRED]


def test_number_of_shapes():
    assert len(SHAPES) >= 60


@pytest.mark.parametrize("name", SHAPES)
def test_decision_of_each_shape(name):
    shape = SHAPES[name]
    before = deepcopy(shape["workload"])
    found = {
        tier: verdict(shape["workload"], PLANS[tier], shape.get("siblings", ())) for tier in TIERS
    }
    assert {tier: what for tier, (what, _) in found.items()} == shape["verdicts"], found
    assert all(said for what, said in found.values() if what != NO_WORKLOAD)
    assert shape["workload"] == before
    assert ("argv" in shape) == (WIRED in shape["verdicts"].values())


@pytest.mark.parametrize(("name", "tier"), ON)
def test_only_intended_arguments_are_written(name, tier, tmp_path):
    shape = SHAPES[name]
    siblings = shape.get("siblings", ())
    found = wired(shape["workload"], PLANS[tier], siblings)
    assert found is not None
    before, after = templates(shape["workload"]), templates(found.manifest)
    assert set(found.record.templates) == set(shape["argv"])
    for path, body in after.items():
        if path not in shape["argv"]:
            assert body == before[path]
    index = shape.get("container", 0)
    for path, expected in shape["argv"].items():
        if "spec" not in before[path]:  # of Ray Serve
            kwargs = dict(after[path]["engine_kwargs"])
            assert kwargs.pop("kv_transfer_config")["kv_connector"] == CONNECTORS[tier]
            assert kwargs == before[path]["engine_kwargs"]
            continue
        kept, others = (list(each[path]["spec"]["containers"]) for each in (before, after))
        original, container = kept.pop(index), others.pop(index)
        assert others == kept
        if not expected:
            assert [container.get(k) for k in ("command", "args")] == [
                original.get(k) for k in ("command", "args")
            ]
            continue
        got = [taken_off(start) for start in starts({}, container, tmp_path)]
        assert [words for words, _, _ in got] == expected
        for _, connectors, flags in got:
            if tier in CONNECTORS and not flags:
                assert connectors == [*shape.get("connectors", ()), CONNECTORS[tier]]
            else:
                assert "--enable-hierarchical-cache" in flags
                assert len(flags) == len(set(flags)), flags
    again = wired(found.manifest, PLANS[tier], siblings)
    assert again is not None and again.manifest == found.manifest


def test_judged_kinds_are_known():
    for name, shape in SHAPES.items():
        unknown = NO_WORKLOAD in shape["verdicts"].values()
        ending = shape["workload"]["kind"] == "Job"
        assert unknown == (not workloads.find(shape["workload"]) or ending), name


def test_page_is_generated_from_the_shapes():
    assert PAGE.read_text() == text(), "run `python -m tests.corpus.judged`"
