"""Whole specs to whole answers; the manifests are in the render cases of the same names."""

import pytest

from function.backends.lmcache import BACKEND
from function.contract.backend import AGENTS, CONTROL_PLANE
from tests.unit.backends.lmcache.golden import GOLDENS

each_case = pytest.mark.parametrize("case", GOLDENS.cases)


@each_case
def test_the_whole_answer(case: str) -> None:
    assert GOLDENS.answer(case) == GOLDENS.expected(case)
    assert GOLDENS.path(case).read_text() == GOLDENS.text(case), "run `make goldens`"


def test_every_golden_has_its_case() -> None:
    assert GOLDENS.strangers() == set()


# (case, keys of the parts in the order they are applied)
OBJECTS = (
    ("large-l1", "namespace daemonset-agent service-agent networkpolicy-agent"),
    (
        "managed-redis-open",
        "namespace statefulset-redis-shared service-redis-shared networkpolicy-redis-shared "
        "daemonset-agent service-agent networkpolicy-agent",
    ),
    (
        "hugepages-dra",
        "namespace resourceclaimtemplate-gpus daemonset-agent service-agent networkpolicy-agent",
    ),
    ("in-process", ""),
)


@pytest.mark.parametrize(("case", "keys"), OBJECTS)
def test_few_objects(case: str, keys: str) -> None:
    assert [p.key for p in BACKEND.parts(GOLDENS.of(case))] == keys.split()


@each_case
def test_what_is_watched_kept_and_waited_for(case: str) -> None:
    for part in BACKEND.parts(GOLDENS.of(case)):
        kind = part.manifest["kind"]
        workload = kind in ("DaemonSet", "StatefulSet")
        assert part.watch == workload == bool(part.ready), part.key
        assert part.keep == (kind in ("Namespace", "PersistentVolumeClaim")), part.key
        role = {"DaemonSet": AGENTS, "StatefulSet": CONTROL_PLANE}.get(kind, "Support")
        assert part.role == role, part.key
