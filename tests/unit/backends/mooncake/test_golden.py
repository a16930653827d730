"""Whole specs to whole answers."""

import json

import pytest

from function.backends.mooncake import BACKEND
from function.contract.backend import AGENTS, CONTROL_PLANE
from tests.unit.backends.mooncake import golden, tier


@pytest.mark.parametrize("case", golden.CASES)
def test_the_whole_answer(case: str) -> None:
    # As JSON, so that what is compared is what an API server would see.
    assert json.loads(json.dumps(golden.answer(case))) == golden.load("golden", case)


def test_every_golden_has_its_spec() -> None:
    assert {path.stem for path in (golden.HERE / "golden").glob("*.yaml")} == set(golden.CASES)


# (case, keys of the parts in the order they are applied)
OBJECTS = (
    ("smallest", "namespace deployment-master service-master daemonset-store networkpolicy-pool"),
    (
        "ha-rdma",
        "namespace statefulset-etcd service-etcd poddisruptionbudget-etcd deployment-master "
        "service-master poddisruptionbudget-master daemonset-store networkpolicy-pool "
        "podmonitor-pool prometheusrule-pool",
    ),
    (
        "off-gpu",
        "namespace deployment-master service-master resourceclaimtemplate-rdma statefulset-store "
        "poddisruptionbudget-store networkpolicy-pool",
    ),
    ("ssd", "namespace deployment-master service-master daemonset-store networkpolicy-pool"),
    ("external", "namespace daemonset-store networkpolicy-pool"),
    ("external-pool", ""),
)


@pytest.mark.parametrize(("case", "keys"), OBJECTS)
def test_few_objects(case: str, keys: str) -> None:
    assert [p.key for p in BACKEND.parts(tier(golden.load("specs", case)))] == keys.split()


_ROLES = {
    "daemonset-store": AGENTS,
    "statefulset-store": AGENTS,
    "deployment-master": CONTROL_PLANE,
    "statefulset-etcd": CONTROL_PLANE,
}


@pytest.mark.parametrize("case", golden.CASES)
def test_what_is_watched_kept_and_waited_for(case: str) -> None:
    for part in BACKEND.parts(tier(golden.load("specs", case))):
        assert part.watch == (part.key in _ROLES) == bool(part.ready), part.key
        assert part.keep == (part.key == "namespace"), part.key
        assert part.role == _ROLES.get(part.key, "Support"), part.key
