"""A sixth backend as a stranger adds it, in a copy of the tree: `sixth/` holds all that is written.

What one more backend may touch is a promise of docs/backends.md; whatever here does not pass
without another file touched breaks it.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WRITTEN = Path(__file__).parent / "sixth"
COPIED = (
    "README.md",
    "pyproject.toml",
    "docs",
    "function",
    "kv_offload",
    "package/input",
    "programs",
    "xrd",
)
TESTS = ("__init__.py", "render", "unit")

# What is written by hand: path in the tree -> file or folder in `sixth/`.
OWN = {
    "function/api/sixth.py": "api.py",
    "function/backends/sixth": "backend",
    "tests/unit/backends/sixth/golden.py": "golden.py",
    "tests/render/cases/tier/sixth/smallest/xr.yaml": "xr.yaml",
}
# The one line, and its import.
REGISTRY = "function/api/backends.py"
LINE, IMPORT = '    "Sixth": SixthSpec,\n', "from function.api.sixth import SixthSpec\n"
# `make generate` and `make goldens`, as far as a tier's are concerned, in one process.
GENERATE = """
from kv_offload import docs
from kv_offload.crds import generate
from tests.unit.backends import goldens
generate.main()
docs.main([])
for one in goldens.every():
    one.write()
"""
# What the first may write anew.
GENERATED = {
    "docs/accelerators.md",
    "docs/api.md",
    "docs/api/kvoffloadtier-sixth.md",
    "docs/api/kvoffloadtier.md",
    "docs/connectors.md",
    "docs/images.md",
    "docs/models.md",
    "docs/support.md",
    "docs/versions.md",
    "xrd/kvoffloadtier.yaml",
    "xrd/standalone/inferencecluster.yaml",
}


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, to)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy, with the sixth in it and nothing generated yet."""
    root = tmp_path_factory.mktemp("sixth")
    for path in (*COPIED, *(f"tests/{name}" for name in TESTS)):
        _copy(ROOT / path, root / path)
    for path, source in OWN.items():
        _copy(WRITTEN / source, root / path)
    (root / "tests/unit/backends/sixth/__init__.py").touch()
    (root / "tests/unit/backends/sixth/golden").mkdir()
    registry = (root / REGISTRY).read_text()
    end, imports = "}\n\n\ndef field_name", "\nSPECS: "
    assert (registry.count(end), registry.count(imports)) == (1, 1)
    registry = registry.replace(end, LINE + end).replace(imports, IMPORT + imports)
    (root / REGISTRY).write_text(registry)
    _python(root, "-c", GENERATE)
    return root


def _python(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, text=True, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_keeps_the_contract(tree: Path) -> None:
    suites = ("contract/test_every_backend.py", "backends/test_golden.py", "house")
    paths = [f"tests/unit/{suite}" for suite in suites]
    said = _python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths, "-k", "Sixth")
    assert "Sixth" not in said and " passed" in said, said


def _same(path: Path, before: Path) -> bool:
    return before.is_file() and path.read_text() == before.read_text()


def test_pages_and_types_know_it(tree: Path) -> None:
    changed = {
        str(path.relative_to(tree))
        for folder in ("docs", "package", "xrd")
        for path in [tree / folder, *(tree / folder).rglob("*")]
        if path.is_file() and not _same(path, ROOT / path.relative_to(tree))
    }
    assert changed <= GENERATED
    assert "| Sixth | vLLM | all |" in (tree / "docs/support.md").read_text()
    assert "SimpleCPUOffloadConnector/sixth" in (tree / "docs/versions.md").read_text()
    assert "Settings of backend Sixth." in (tree / "xrd/kvoffloadtier.yaml").read_text()
