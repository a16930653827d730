"""Whole specs to whole answers; the manifests are in the render cases of the same names."""

import pytest

from function.backends.mooncake import BACKEND
from function.contract.backend import AGENTS, CONTROL_PLANE
from tests.unit.backends.mooncake.golden import GOLDENS

each_case = pytest.mark.parametrize("case", GOLDENS.cases)


@each_case
def test_the_whole_answer(case: str) -> None:
    assert GOLDENS.answer(case) == GOLDENS.expected(case)
    assert GOLDENS.path(case).read_text() == GOLDENS.text(case), "run `make goldens`"


def test_every_golden_has_its_case() -> None:
    assert GOLDENS.strangers() == set()


# (case, keys of the parts in the order they are applied)
OBJECTS = (
    ("every-node", "namespace deployment-master service-master daemonset-store networkpolicy-pool"),
    (
        "ha-replicated",
        "namespace statefulset-etcd service-etcd poddisruptionbudget-etcd deployment-master "
        "service-master poddisruptionbudget-master daemonset-store networkpolicy-pool "
        "podmonitor-pool prometheusrule-pool",
    ),
    (
        "off-gpu",
        "namespace deployment-master service-master resourceclaimtemplate-rdma statefulset-store "
        "poddisruptionbudget-store networkpolicy-pool",
    ),
    (
        "ssd-drained",
        "namespace deployment-master service-master daemonset-store networkpolicy-pool",
    ),
    ("external-etcd", "namespace daemonset-store networkpolicy-pool"),
    ("external-pool", ""),
)


@pytest.mark.parametrize(("case", "keys"), OBJECTS)
def test_few_objects(case: str, keys: str) -> None:
    assert [p.key for p in BACKEND.parts(GOLDENS.of(case))] == keys.split()


_ROLES = {
    "daemonset-store": AGENTS,
    "statefulset-store": AGENTS,
    "deployment-master": CONTROL_PLANE,
    "statefulset-etcd": CONTROL_PLANE,
}


@each_case
def test_what_is_watched_kept_and_waited_for(case: str) -> None:
    for part in BACKEND.parts(GOLDENS.of(case)):
        assert part.watch == (part.key in _ROLES) == bool(part.ready), part.key
        assert part.keep == (part.key == "namespace"), part.key
        assert part.role == _ROLES.get(part.key, "Support"), part.key
