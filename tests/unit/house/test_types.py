"""Type-checker ignores have a code and a reason, and one class name is one class."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_REASONED = re.compile(r"# type: ignore\[[a-z-]+(, [a-z-]+)*\] # \w+")

IGNORED = [
    f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
    for package in ("function", "kv_offload")
    for path in sorted((ROOT / package).rglob("*.py"))
    for number, line in enumerate(path.read_text().splitlines(), start=1)
    if "type: ignore" in line
]


@pytest.mark.parametrize("line", IGNORED)
def test_an_ignored_line_has_its_code_and_its_reason(line: str) -> None:
    assert _REASONED.search(line)


@pytest.mark.parametrize(
    ("comment", "good"),
    (
        ("# type: ignore[valid-type] # made at run time", True),
        ("# type: ignore[arg-type, call-arg] # the stubs are older", True),
        ("# type: ignore[valid-type]", False),
        ("# type: ignore # made at run time", False),
        ("# type: ignore", False),
    ),
)
def test_reason_of_an_ignored_line_is_recognised(comment: str, good: bool) -> None:
    assert bool(_REASONED.search(comment)) is good


def test_one_class_name_is_one_class() -> None:
    trees = (ast.parse(path.read_text()) for path in (ROOT / "function").rglob("*.py"))
    named = Counter(n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    assert {name: times for name, times in named.items() if times > 1} == {}
