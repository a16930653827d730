"""Whole specs to whole answers; the manifests are in the render cases of the same names."""

import pytest

from function.api.backends import SPECS
from function.contract.backend import SUPPORT
from tests.unit.backends import goldens
from tests.unit.backends.goldens import Goldens

EVERY = goldens.every()
each_case = pytest.mark.parametrize(
    ("of", "case"),
    [pytest.param(of, case, id=f"{of.backend.name}-{case}") for of in EVERY for case in of.cases],
)


@each_case
def test_answer_equals_the_golden(of: Goldens, case: str) -> None:
    assert of.answer(case) == of.expected(case)
    assert of.path(case).read_text() == of.text(case), "run `make goldens`"


def test_every_backend_has_goldens_and_every_golden_its_case() -> None:
    assert {of.backend.name for of in EVERY} == set(SPECS)
    assert [of.unexpected_files() for of in EVERY] == [set() for _ in EVERY]


@each_case
def test_parts_to_watch_keep_and_wait_for(of: Goldens, case: str) -> None:
    """Workloads are waited for, and nothing else; what others share or what holds data is kept."""
    for part in of.backend.parts(of.of(case)):
        kind = part.manifest["kind"]
        workload = kind in ("DaemonSet", "StatefulSet", "Deployment")
        assert part.watch == workload == bool(part.ready) == (part.role != SUPPORT), part.key
        assert part.keep == (kind in ("Namespace", "PersistentVolumeClaim")), part.key
