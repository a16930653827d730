"""Conditions of SGLang's rules: how `when` of its facts.yaml is read."""

import pytest

from function.engines.sglang.rules import Condition


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
    assert Condition(text)(holds) and not Condition(text)(holds_not)


@pytest.mark.parametrize("text", ["a", "--a =", "--a ~ x", "--a or", "--a = x y"])
def test_a_text_that_is_no_condition_is_refused(text):
    with pytest.raises(ValueError, match="is not a condition on flags"):
        Condition(text)
