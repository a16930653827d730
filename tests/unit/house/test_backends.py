"""The files that name a backend outside its own folders: docs/backends.md must list them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from function.api.backends import SPECS, field_name
from function.backends.registry import BACKENDS

ROOT = Path(__file__).parents[3]
PACKAGES = ("function", "kv_offload")
PAGE = ROOT / "docs/backends.md"

_BRINGS = sorted({name for one in SPECS for name in BACKENDS[one].allows.connectors})
# An English word too: then only as the backend writes it.
_WORDS = {"Native"}
_LOOSE = re.compile("|".join(name for name in SPECS if name not in _WORDS), re.IGNORECASE)
_STRICT = re.compile(rf"\b({'|'.join((*_BRINGS, *_WORDS))})\b")


def _own(path: str) -> bool:
    """Whether a file is of one backend alone: its folder, or its API modules."""
    fields = "|".join(map(field_name, SPECS))
    return bool(re.match(rf"function/(backends/({fields})/|api/({fields})(_\w+)?\.py$)", path))


def _names_and_texts(tree: ast.AST) -> Iterator[str]:
    """The names and texts of a file; what it says of itself is prose."""
    prose = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            yield node.value
        for name in ("id", "attr", "name", "arg", "module"):
            if isinstance(value := getattr(node, name, None), str):
                yield value


def texts() -> Iterator[tuple[str, list[str]]]:
    """Yield each file of the packages with its names and texts."""
    for path in sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py")):
        yield str(path.relative_to(ROOT)), list(_names_and_texts(ast.parse(path.read_text())))


def _naming() -> set[str]:
    return {
        path
        for path, words in texts()
        if not _own(path) and any(_LOOSE.search(word) or _STRICT.search(word) for word in words)
    }


def _listed() -> list[str]:
    rows = PAGE.read_text().partition("| File |")[2].splitlines()[2:]
    return [row.split("`")[1] for row in rows if row.startswith("| `")]


def test_the_page_names_every_file_that_names_a_backend() -> None:
    listed = _listed()
    naming = _naming()
    rows = {path: next((row for row in listed if path.startswith(row)), "") for path in naming}
    assert {path for path, row in rows.items() if not row} == set(), "docs/backends.md leaves out"
    assert set(listed) - set(rows.values()) == set(), "docs/backends.md lists, and need not"
