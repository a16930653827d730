"""Every render case: both engines give the golden, and Crossplane finds what is rendered valid."""

import pytest

from tests.render import engines, golden, run, validate
from tests.render.case import Case, all_cases

CASES = all_cases()
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
def test_embedded_engine_renders_the_golden(case: Case) -> None:
    wrong = run.check(case, engines.embedded, "embedded", update=False)
    assert not wrong, "\n".join(wrong)


@each_case
def test_crossplane_renders_the_golden(case: Case, crossplane: run.Engine) -> None:
    wrong = run.check(case, crossplane, "crossplane", update=False)
    assert not wrong, "\n".join(wrong)


@each_case
def test_rendered_documents_are_valid(case: Case, validator: validate.Validator) -> None:
    wrong = run.invalid(case, validator)
    assert not wrong, "\n".join(wrong)


def test_validator_finds_invalid_documents(validator: validate.Validator) -> None:
    tier = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "KVOffloadTier",
        "metadata": {"name": "chat", "namespace": "modelplane-system"},
        "spec": {"backend": "LMCache", "inferenceClusterRef": {"name": "gke"}},
        "status": {"undeclared": 1},
    }
    problems = " ".join(validator.problems([tier]))
    assert "unknown field" in problems
    assert "lmcache must be set when backend is LMCache" in problems


@each_case
def test_every_golden_has_a_pass(case: Case) -> None:
    assert golden.unexpected_files(case) == []
    assert len({one.name for one in case.passes}) == len(case.passes)
