"""What a machine with an NVIDIA GPU and no network lacks to run this suite: packed, and unpacked.

    python -m tests.serve.gpu_kit pack KIT             # where there is a network
    python3 -m tests.serve.gpu_kit unpack KIT FOLDER   # on the machine

The machine has Linux on x86_64, Python 3.12, PyTorch 2.11 for CUDA 13 with what that brings, a C
compiler, and runs as root. The kit has vLLM less the kernels that a small model with Triton's
attention never loads, LMCache, NIXL, Mooncake, cupy, this project's requirements and pytest, and
the shared libraries and `ip` of Debian packages, as .tar.xz in pieces that any way of copying
takes. `test_02_kit.py` holds the list to the imports of an engine that registers. Nothing of it has
run on a GPU by us.
"""

import ctypes
import os
import site
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from tests.conformance.envs import REQUIREMENTS, Environment
from tests.conformance.placeholders import LAZY_BINDING

ROOT = Path(__file__).parents[2]
PYTHON = "3.12"
PIECE = 56 * 2**20  # bytes
ENGINES, SUITE, SYSTEM, LIBRARIES = "engines", "suite", "system", "libraries"
# environment -> what uv installs into it; the engines' list is complete, nothing of it is resolved
CONTENT = {
    ENGINES: (
        "--no-deps",
        *("-r", str(REQUIREMENTS / "python.txt"), "vllm==0.33.0", "lmcache==0.5.6"),
        *("nixl==1.5.1", "nixl-cu13==1.5.1", "mooncake-transfer-engine-cuda13==0.3.13.post1"),
        *("xgrammar==0.2.8", "apache-tvm-ffi==0.1.11"),
        # What lmcache imports when an engine registers: by CUDA IPC, and Isolated.
        *("cupy-cuda13x==14.2.0", "cuda-bindings==13.0.3", "cuda-pathfinder==1.9.0"),
    ),
    SUITE: ("-r", str(ROOT / "requirements.txt"), "pytest>=9.0,<10", "hypothesis>=6.148,<7"),
}
# What the machine has: module -> the distribution that brings it.
MACHINE = {"torch": "torch", "triton": "triton"}
# Debian packages of the shared libraries that Mooncake's modules load (lmcache imports these too)
# and of `ip`, which makes the pods' network. Less of them: what every machine has.
DEBIAN = ("ibverbs-providers", "iproute2", "libcurl4", "libibverbs1", "libnuma1")
EVERYWHERE = {"libc6", "libgcc-s1", "libssl3", "zlib1g"}
# Of torch's own libraries: Mooncake's programs start without torch.
CUDA = ("libcudart.so.13",)
# Their libraries are found by every program, and every pod has them.
SYSTEM_FOLDERS = {Path("/"), Path("/usr"), Path("/usr/lib"), Path("/lib")}
# Never loaded by a dense model of two layers with `--attention-backend TRITON_ATTN`. One build of
# FlashAttention stays, that of Hopper: without any, vLLM's modules do not import on CUDA.
NEVER_LOADED = (
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
    "vllm/third_party/deep_gemm",
    "vllm/third_party/fmha_sm100",
    "vllm/_flashkda_C.abi3.so",
    "vllm/_deepselect_C.abi3.so",
    "vllm/_flashmla_C.abi3.so",
    "vllm/_flashmla_extension_C.abi3.so",
    "vllm/_qutlass_C.abi3.so",
    "vllm/vllm-rs",
    "nixl_ep",
    "nixl_ep_cu13",
    "mooncake/libmooncake_pg*.so",
    "mooncake/libmooncake_ep_device.so",
    "mooncake/pg_*.so",
    "mooncake/_ep.*.so",
    "numba/tests",
    "numpy/*/tests",
    "networkx/*/tests",
    "sympy/*/tests",
)


def distributions() -> dict[str, str]:
    """The engines' distributions that the kit names itself: name -> version."""
    return dict(word.split("==") for word in CONTENT[ENGINES] if "==" in word)


def _uv(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "uv", "pip", *map(str, words)], check=True)


def pack(kit: Path) -> None:
    """Write the kit's pieces, `kit.tar.xz.00` and so on."""
    kit.mkdir(parents=True, exist_ok=True)
    platform = ("--python-version", PYTHON, "--python-platform", "x86_64-manylinux_2_35")
    with tempfile.TemporaryDirectory() as name:
        for environment, content in CONTENT.items():
            _uv(
                "install",
                "--quiet",
                "--only-binary",
                ":all:",
                *platform,
                "--target",
                Path(name) / environment,
                *content,
            )
        _system(Path(name) / SYSTEM)
        write(Path(name), kit)


def _system(folder: Path) -> None:
    """Fill `bin` and `lib` of the folder from Debian packages, where apt-get knows them."""
    options = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks")]
    options += [f"--no-{kind}" for kind in ("replaces", "enhances")]
    lines = _said("apt-cache", "depends", "--recurse", *options, *DEBIAN).splitlines()
    names = {line for line in lines if not line.startswith((" ", "<"))} - EVERYWHERE
    for part in ("bin", "lib"):
        (folder / part).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["apt-get", "download", "-qq", *sorted(names)], cwd=name, check=True)
        for package in sorted(Path(name).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package.name, "root"], cwd=name, check=True)
        for library in Path(name, "root").glob("**/*-linux-gnu/lib*.so.*"):
            (folder / "lib" / library.name).write_bytes(library.read_bytes())
        (program,) = Path(name, "root").glob("bin/ip")
        (folder / "bin" / "ip").write_bytes(program.read_bytes())
    (folder / "bin" / "ip").chmod(0o755)


def _said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def write(sites: Path, kit: Path) -> None:
    """Write a folder with the kit's parts as pieces."""

    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = member.name.partition("/")[2]
        left_out = any(fnmatch(path, pattern) for pattern in NEVER_LOADED)
        return None if left_out or "__pycache__" in path else member

    with tempfile.NamedTemporaryFile(suffix=".tar.xz") as whole:
        with tarfile.open(whole.name, "w:xz", preset=3) as archive:
            for environment in (*CONTENT, SYSTEM):
                archive.add(sites / environment, environment, filter=wanted)
        for number in range(1000):
            piece = whole.read(PIECE)
            if not piece:
                return
            (kit / f"kit.tar.xz.{number:02d}").write_bytes(piece)


def unpack(kit: Path, folder: Path) -> None:
    """Two environments in `folder`: the kit's packages stand before the machine's own. Beside them
    `libraries`: those that this machine lacks."""
    with tempfile.NamedTemporaryFile(suffix=".tar.xz") as whole:
        for piece in sorted(kit.glob("kit.tar.xz.*")):
            whole.write(piece.read_bytes())
        whole.flush()
        with tarfile.open(whole.name) as archive:
            archive.extractall(folder / "packages", filter="data")
    for environment in CONTENT:
        make(folder / environment, (folder / "packages" / environment).resolve())
    program = folder / SUITE / "bin" / "kv-offload"
    program.write_text(
        f"#!{folder / SUITE}/bin/python3\nfrom kv_offload.cli import main\n\nmain()\n"
    )
    program.chmod(0o755)
    own = [Path(path) for path in site.getsitepackages()]
    cuda = [found for path in own for name in CUDA for found in path.glob(f"nvidia/**/{name}")]
    system = folder / "packages" / SYSTEM / "lib"
    link_missing(folder / LIBRARIES, (*sorted(system.iterdir()), *cuda))


def link_missing(folder: Path, libraries: Iterable[Path]) -> None:
    """Link in `folder` those of the libraries whose name this machine's loader does not find."""
    folder.mkdir(exist_ok=True)
    for library in libraries:
        try:
            ctypes.CDLL(library.name, mode=os.RTLD_LAZY)
        except OSError:
            link = folder / library.name
            link.unlink(missing_ok=True)
            link.symlink_to(library.resolve())


def driver_folder() -> Path | None:
    """Return the folder of NVIDIA's driver in this process, None without one."""
    try:
        ctypes.CDLL("libcuda.so.1", mode=os.RTLD_LAZY)
    except OSError:
        return None
    mapped = Path("/proc/self/maps").read_text().split()
    return next(Path(word).parent for word in mapped if "/libcuda.so" in word)


def image(name: str, engines: Path) -> Environment:
    """Return what stands in for an image: the kit's engines with what lies on other mounts of the
    machine, which a pod's file system lacks: the kit, this Python and the driver."""
    packages = (Path(path) for path in sys.path if path.endswith("-packages"))
    folders, libraries = [engines.parent, *packages], [engines.parent / LIBRARIES]
    driver = driver_folder()
    if driver is not None and driver.parent not in SYSTEM_FOLDERS:
        folders.append(driver.parent)
        libraries.append(driver)
    return Environment(name, engines, folders=tuple(folders), libraries=tuple(libraries))


def make(environment: Path, packages: Path) -> None:
    """Make a venv whose packages are those of a folder, then this Python's own."""
    builder = venv.EnvBuilder(system_site_packages=True, clear=True, with_pip=False)
    builder.create(environment)
    # This Python may be a venv's own, which a venv made by it does not see.
    added = [packages, *([ROOT] if environment.name == SUITE else []), *site.getsitepackages()]
    (own,) = environment.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({str(path)!r})" for path in added]
    if environment.name == ENGINES:
        # lmcache's kernels are built with a newer torch: of 2.11 they lack the constructor of one
        # exception, which is then bound when it is first raised.
        lines.insert(0, LAZY_BINDING.rstrip())
    (own / "kit.pth").write_text("\n".join(lines) + "\n")
    for program in (packages / "bin").glob("*"):
        first, *rest = program.read_bytes().split(b"\n", 1)
        if first.startswith(b"#!") and b"python" in first:
            first = f"#!{environment}/bin/python3".encode()
        target = environment / "bin" / program.name
        if not target.exists():
            target.write_bytes(b"\n".join((first, *rest)))
            target.chmod(0o755)


def main(arguments: list[str]) -> int:
    """Do what the module says."""
    match arguments:
        case ["pack", kit]:
            pack(Path(kit))
        case ["unpack", kit, folder]:
            if sysconfig.get_python_version() != PYTHON:
                print(f"the kit is for Python {PYTHON}", file=sys.stderr)
                return 1
            unpack(Path(kit), Path(folder).resolve())
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
