"""Conditions in facts.yaml, and the conflicts that consist of them."""

from importlib import import_module

import pytest

from function.api.backends import SPECS, field_name
from function.contract.conditions import FlagCondition


@pytest.mark.parametrize(
    ("text", "holds", "holds_not"),
    [
        ("--a", {"--a": None}, {}),
        ("not --a", {}, {"--a": None}),
        ("--a = x", {"--a": "x"}, {"--a": "y"}),
        ("--a != x", {"--a": "y"}, {"--a": None}),
        ("not --a = x", {}, {"--a": "x"}),
        ("--a > 1", {"--a": "2"}, {"--a": "1"}),
        ("--a < 1", {"--a": "0.5"}, {"--a": "many"}),
        ("--a <= 0", {"--a": "0"}, {}),
        ("--a or --b = x", {"--b": "x"}, {"--b": "y"}),
    ],
)
def test_a_condition_holds_for_these_flags_alone(text, holds, holds_not):
    condition = FlagCondition(text)
    assert condition.find(holds) is not None and condition.find(holds_not) is None


@pytest.mark.parametrize("text", ["a b", "--a =", "--a ~ x", "--a or", "--a = x y"])
def test_a_text_that_is_no_condition_is_refused(text):
    with pytest.raises(ValueError, match="is not a condition"):
        FlagCondition(text)


@pytest.mark.parametrize("backend", SPECS)
def test_the_cases_that_rows_name_are_those_of_the_backend(backend):
    try:
        module = import_module(f"function.backends.{field_name(backend)}.conflicts")
    except ModuleNotFoundError:
        return
    named = {row.case for row in module.CONFLICTS.rows} - {""}
    assert named == set(module.CONFLICTS.cases)
