"""A copy of the tree in which a stranger adds one thing: what he writes, and what is generated."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
_COPIED = (
    "README.md",
    "pyproject.toml",
    "docs",
    "function",
    "kv_offload",
    "package/input",
    "programs",
    "tests/__init__.py",
    "tests/render",
    "tests/unit",
    "xrd",
)
# `make generate` and `make goldens`, as far as a tier's are concerned, in one process.
_GENERATE = """
from kv_offload import docs
from kv_offload.crds import generate
from tests.unit.backends import goldens
generate.main()
docs.main([])
for one in goldens.every():
    one.write()
"""


def copy_tree(root: Path) -> None:
    """Copy the tree to `root`."""
    for path in _COPIED:
        _copy(ROOT / path, root / path)


def write(root: Path, written: Path, own: Mapping[str, str]) -> None:
    """Copy what the stranger wrote: `own` is {path in the tree: file or folder in `written`}."""
    for path, source in own.items():
        _copy(written / source, root / path)


def add_line(root: Path, file: str, before: str, text: str) -> None:
    """Put text before a place that stands in the file once."""
    path = root / file
    found = path.read_text()
    assert found.count(before) == 1, f"{file}: {before!r}"
    path.write_text(found.replace(before, text + before))


def generate(root: Path) -> None:
    """Write types, pages and goldens anew."""
    python(root, "-c", _GENERATE)


def python(root: Path, *arguments: str) -> str:
    """Run Python in the tree and return what it prints. Raise AssertionError where it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, text=True, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_tests(root: Path, which: str, *suites: str) -> str:
    """Run the tests of these suites whose id holds `which`; return what pytest prints."""
    paths = [f"tests/unit/{suite}" for suite in suites]
    printed = python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths, "-k", which)
    assert " passed" in printed, printed
    return printed


def generated(root: Path) -> set[str]:
    """Return the pages and types that differ from those of this tree."""
    return {
        str(path.relative_to(root))
        for folder in ("docs", "package", "xrd")
        for path in (root / folder).rglob("*")
        if path.is_file() and not _same(path, ROOT / path.relative_to(root))
    }


def _same(path: Path, before: Path) -> bool:
    return before.is_file() and path.read_text() == before.read_text()


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, to, ignore=ignored, dirs_exist_ok=True)
    else:
        shutil.copy(source, to)


SIXTH = HERE / "sixth"
SIXTHS_OWN = {
    "function/api/sixth.py": "api.py",
    "function/backends/sixth": "backend",
    "tests/unit/backends/sixth/golden.py": "golden.py",
    "tests/render/cases/tier/sixth/smallest/xr.yaml": "xr.yaml",
}


def add_sixth_backend(root: Path) -> None:
    """Add the backend of `sixth/`: its files, one line of the registry and its import."""
    write(root, SIXTH, SIXTHS_OWN)
    (root / "tests/unit/backends/sixth/__init__.py").touch()
    (root / "tests/unit/backends/sixth/golden").mkdir()
    registry = "function/api/backends.py"
    add_line(root, registry, "}\n\n\ndef field_name", '    "Sixth": SixthSpec,\n')
    add_line(root, registry, "\nSPECS: ", "from function.api.sixth import SixthSpec\n")
