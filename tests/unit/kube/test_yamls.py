"""Untrusted YAML is read within bounds of time and memory."""

from itertools import pairwise

import pytest
import yaml

from function.kube import yamls

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefghi")
)
DEEP = (
    "[" * 100_000,
    "a: " + "[" * 100_000 + "]" * 100_000,
    "- " * 100_000 + "a",
    "\n".join(" " * i + "a:" for i in range(500)),
)


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError, match="more than 100 levels deep"):
        yamls.check(text)


NUMBERS = (":".join(["1"] * 100_000), "0x" + "f" * 100_000, "1." + "9" * 100_000, "1_" * 50_000)


@pytest.mark.parametrize("text", NUMBERS, ids=range(len(NUMBERS)))
@pytest.mark.parametrize("around", ["a: {}", "{}: a", '!!int "{}"', "[-{}]"])
def test_very_long_number_is_refused(text: str, around: str) -> None:
    """Base 60 costs its square: half a megabyte of it takes minutes."""
    with pytest.raises(yaml.MarkedYAMLError, match="a number of more than 1000 digits"):
        yamls.check(around.format(text))


def test_expanding_aliases_are_refused() -> None:
    with pytest.raises(yaml.MarkedYAMLError, match="aliases stand for more than 100000 values"):
        yamls.check(BOMB)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1\n---\nb: [1, {c: 2}]\n",
        "a: &a {b: 1}\nc: [*a, *a]\nd: {<<: *a}\n",
        "a: &a [*a]",  # circular: whoever makes JSON of it sees that
        "[" * 100 + "]" * 100,
        "a: '" + "1" * 5_000 + "'\nb: " + "1-" * 5_000 + "\nc: |\n  " + "1" * 5_000 + "\n",
    ],
)
def test_ordinary_yaml_is_read(text: str) -> None:
    yamls.check(text)


@pytest.mark.parametrize("text", ["a: [", "\tx"])
def test_invalid_yaml_gives_its_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        yamls.check(text)


def test_anchors_end_with_their_document() -> None:
    one = "a: &a [" + ", ".join("x" * 900) + "]\nb: [" + ", ".join(["*a"] * 50) + "]\n"
    yamls.check("---\n".join([one] * 2))
    with pytest.raises(yaml.MarkedYAMLError):
        yamls.check("---\n".join([one] * 3))
