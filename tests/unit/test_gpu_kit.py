"""The kit for a machine with a GPU, as far as a machine without one shows it: its list, its
environments and the libraries beside them. Nothing here shows that it runs on a GPU."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.conformance.envs import REQUIREMENTS
from tests.serve import gpu_kit
from tests.serve.imports import Walk


def test_kit_has_the_versions_of_the_suite() -> None:
    lines = (REQUIREMENTS / "vllm.txt").read_text().replace("non-cuda", "cuda13").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    assert pinned.items() <= gpu_kit.distributions().items()


def test_kit_leaves_one_build_of_flash_attention() -> None:
    """Without any, no module of vLLM's models imports on CUDA."""
    left_out = [path for path in gpu_kit.NEVER_LOADED if "_vllm_fa" in path]
    assert left_out == ["vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"]


def test_environment_made_from_a_venv_sees_the_packages_of_that_venv(tmp_path: Path) -> None:
    """PyTorch lies in a venv of the machine, and a venv made by another sees its base only."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "vllm.py").write_text("where = 'kit'")
    (packages / "pytest.py").write_text("where = 'kit'")
    gpu_kit.make(tmp_path / gpu_kit.ENGINES, packages)
    program = (
        "import sys, os, vllm, pytest, ruff;"
        "print(vllm.where, pytest.where, sys.getdlopenflags() == os.RTLD_LAZY)"
    )
    python = tmp_path / gpu_kit.ENGINES / "bin" / "python3"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kit", "kit", "True"]
    assert sys.prefix != sys.base_prefix, "this test means something in a venv"


def test_only_missing_libraries_are_linked(tmp_path: Path) -> None:
    known, unknown = tmp_path / "libc.so.6", tmp_path / "libnobody.so.1"
    for library in (known, unknown):
        library.touch()
    gpu_kit.link_missing(tmp_path / "libraries", (known, unknown))
    gpu_kit.link_missing(tmp_path / "libraries", (known, unknown))
    assert [link.name for link in (tmp_path / "libraries").iterdir()] == [unknown.name]


def test_kit_is_cut_into_pieces_and_joined(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_kit, "PIECE", 100)
    sites, kit, folder = tmp_path / "sites", tmp_path / "kit", tmp_path / "here"
    for name in (*gpu_kit.CONTENT, gpu_kit.SYSTEM):
        (sites / name / "bin").mkdir(parents=True)
        (sites / name / "lib").mkdir()
    left_out = sites / gpu_kit.ENGINES / gpu_kit.NEVER_LOADED[0]
    left_out.parent.mkdir(parents=True)
    left_out.write_text("a kernel")
    (sites / gpu_kit.ENGINES / "vllm" / "__init__.py").write_text("where = 'kit'")
    (sites / gpu_kit.SYSTEM / "lib" / "libnobody.so.1").touch()
    kit.mkdir()
    gpu_kit.write(sites, kit)
    assert len(list(kit.iterdir())) > 1
    shutil.rmtree(sites)
    gpu_kit.unpack(kit, folder)
    assert (folder / "packages" / gpu_kit.ENGINES / "vllm" / "__init__.py").exists()
    assert not (folder / "packages" / gpu_kit.ENGINES / gpu_kit.NEVER_LOADED[0]).exists()
    assert (folder / gpu_kit.LIBRARIES / "libnobody.so.1").is_symlink()
    said = [folder / gpu_kit.SUITE / "bin" / "kv-offload", "--version"]
    assert subprocess.run(said, capture_output=True).returncode == 0


def test_imports_that_functions_and_alternatives_need_are_missing(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import for_types\n"
        "try:\n    import optional\nexcept ImportError:\n    import instead\n"
        "def register():\n    from . import cuda\n    import when_called\n"
    )
    (tmp_path / "engine" / "cuda.py").write_text("import os, cupy\nfrom nvidia.x import y\n")
    shallow, deep = Walk(tmp_path), Walk(tmp_path, deep=["engine"])
    shallow.run(["engine"])
    assert shallow.missing == {"instead": {"engine"}}
    deep.run(["engine"])
    assert sorted(deep.missing) == ["cupy", "instead", "nvidia", "when_called"]
