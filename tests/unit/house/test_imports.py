"""Imports run one way: from the upper floors to the lower ones, and never in a circle of files."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from function.api.backends import SPECS

ROOT = Path(__file__).parents[3]
PACKAGES = ("function", "kv_offload")

# From the ground up. A room takes from the floors below it, and from rooms that stand before it on
# its own floor.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("reasons", "redact", "problems"),
    ("kube", "names", "facts"),
    ("api",),
    ("edge",),
    ("contract",),
    ("workloads", "command", "engines"),
    ("backends",),
    ("pods",),
    ("composers",),
    ("fn",),
    ("main",),
    # What people run; the image does not hold it.
    ("kv_offload.crds", "kv_offload.docs"),
    ("kv_offload.render",),
    ("kv_offload.cli",),
)
_ORDER = [room for floor in FLOORS for room in floor]


def _files() -> dict[str, Path]:
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(p for p in parts if p != "__init__")] = path
    return found


FILES = _files()


def imported(name: str) -> set[str]:
    """The files that a file imports, also inside functions and for its types alone."""
    found = set()
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in FILES else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    found |= {package for other in found for package in _packages(other)}
    return {other for other in found if other in FILES and not f"{name}.".startswith(f"{other}.")}


def _packages(name: str) -> set[str]:
    """The packages around a file: whoever imports it from outside runs them first."""
    parts = name.split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts))}


def _room(name: str) -> str:
    """Return a file's room: `api` of function.api.tier, `kv_offload.cli` of kv_offload.cli.plan."""
    package, _, rest = name.partition(".")
    room = rest.partition(".")[0]
    return room if package == "function" or not room else f"{package}.{room}"


def test_every_package_has_a_layer() -> None:
    assert {_room(name) for name in FILES} - {""} == set(_ORDER)


@pytest.mark.parametrize("name", [n for n in FILES if _room(n)])
def test_imports_go_to_lower_layers_only(name: str) -> None:
    mine = _ORDER.index(_room(name))
    up = {other for other in imported(name) if _room(other) and _ORDER.index(_room(other)) > mine}
    assert up == set(), f"{name} imports from a floor above its own"


def _roots(path: Path) -> Iterator[str]:
    """Yield what a file imports from outside its own folder, as it is written there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_programs_import_nothing_of_ours() -> None:
    """Their text runs where nothing of ours is installed, and is read but never imported."""
    for path in (ROOT / "programs").rglob("*.py"):
        roots = {name.partition(".")[0] for name in _roots(path)}
        assert roots.isdisjoint({*PACKAGES, "programs", "tests"}), path
    for path in FILES.values():
        taken = {name for name in _roots(path) if name.partition(".")[0] == "programs"}
        assert taken <= {"programs"}, f"{path} imports a program"


def circles() -> set[frozenset[str]]:
    """The strongly connected sets of files (Tarjan), a file of its own left out."""
    edges = {name: imported(name) for name in FILES}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.add(frozenset(stack[at:]))
            del stack[at:]

    for name in edges:
        if name not in index:
            visit(name)
    return found


def test_no_import_cycles() -> None:
    assert circles() == set()


# Modules of backends that know none of them.
SHARED = ("registry", "observer", "monitoring", "node_claims")


def test_no_backend_is_imported_outside_its_own_folders() -> None:
    """What only one backend knows stands in its folder, its API module, or the registry's line."""
    homes = {"function.backends", "function.api", "kv_offload.docs"}
    for name in FILES:
        if any(name.startswith(home) for home in homes):
            continue
        taken = {other for other in imported(name) if other.startswith("function.backends.")}
        shared = {
            f"function.backends.{name}"
            for name in ("registry", "observer", "monitoring", "node_claims")
        }
        assert taken <= shared, f"{name} knows a backend: {taken}"


@pytest.mark.parametrize("name", SPECS)
def test_each_backend_can_be_imported_first(name: str) -> None:
    """A server whose first tier is of this backend imports it before any other."""
    code = f"from function.backends.registry import BACKENDS; print(BACKENDS[{name!r}].name)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout.strip()) == (0, name), found.stderr
