"""Whole specs to whole answers."""

import json

import pytest

from function.backends.lmcache import BACKEND
from function.contract.backend import AGENTS, CONTROL_PLANE
from tests.unit.backends.lmcache import golden, tier


@pytest.mark.parametrize("case", golden.CASES)
def test_the_whole_answer(case: str) -> None:
    # As JSON, so that what is compared is what an API server would see.
    assert json.loads(json.dumps(golden.answer(case))) == golden.load("golden", case)


def test_every_golden_has_its_spec() -> None:
    assert {path.stem for path in (golden.HERE / "golden").glob("*.yaml")} == set(golden.CASES)


# (case, keys of the parts in the order they are applied)
OBJECTS = (
    ("smallest", "namespace daemonset-agent service-agent networkpolicy-agent"),
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
    assert [p.key for p in BACKEND.parts(tier(golden.load("specs", case)))] == keys.split()


@pytest.mark.parametrize("case", golden.CASES)
def test_what_is_watched_kept_and_waited_for(case: str) -> None:
    for part in BACKEND.parts(tier(golden.load("specs", case))):
        kind = part.manifest["kind"]
        workload = kind in ("DaemonSet", "StatefulSet")
        assert part.watch == workload == bool(part.ready), part.key
        assert part.keep == (kind in ("Namespace", "PersistentVolumeClaim")), part.key
        role = {"DaemonSet": AGENTS, "StatefulSet": CONTROL_PLANE}.get(kind, "Support")
        assert part.role == role, part.key
