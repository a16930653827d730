"""What a machine with an NVIDIA GPU and no network lacks to run this suite: packed, and unpacked.

    python -m tests.serve.gpu_kit pack KIT             # where there is a network
    python3 -m tests.serve.gpu_kit unpack KIT FOLDER   # on the machine

The machine has Linux on x86_64, Python 3.12, PyTorch 2.11 for CUDA 13 with what that brings, and
runs as root. The kit has vLLM less the kernels that a small model with Triton's attention never
loads, LMCache, NIXL, Mooncake, this project's requirements and pytest, as .tar.xz in pieces that
any way of copying takes. Nothing of it has run on a GPU by us.
"""

import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from pathlib import Path

from tests.conformance.envs import REQUIREMENTS

ROOT = Path(__file__).parents[2]
PYTHON = "3.12"
PIECE = 56 * 2**20  # bytes
ENGINES, SUITE = "engines", "suite"
# environment -> what uv installs into it; the engines' list is complete, nothing of it is resolved
CONTENT = {
    ENGINES: (
        "--no-deps",
        *("-r", str(REQUIREMENTS / "python.txt"), "vllm==0.33.0", "lmcache==0.5.6"),
        *("nixl==1.5.1", "nixl-cu13==1.5.1", "mooncake-transfer-engine-cuda13==0.3.13.post1"),
        *("xgrammar==0.2.8", "apache-tvm-ffi==0.1.11"),
    ),
    SUITE: ("-r", str(ROOT / "requirements.txt"), "pytest>=9.0,<10", "hypothesis>=6.148,<7"),
}
# Never loaded by a dense model of two layers with `--attention-backend TRITON_ATTN`.
NEVER_LOADED = (
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
    "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
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
)


def _uv(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "uv", "pip", *map(str, words)], check=True)


def pack(kit: Path) -> None:
    """Write the kit's pieces, `kit.tar.xz.00` and so on."""
    kit.mkdir(parents=True, exist_ok=True)
    platform = ("--python-version", PYTHON, "--python-platform", "x86_64-manylinux_2_35")
    with tempfile.TemporaryDirectory() as name:
        for environment, content in CONTENT.items():
            site = Path(name) / environment
            _uv(
                "install",
                "--quiet",
                "--only-binary",
                ":all:",
                *platform,
                "--target",
                site,
                *content,
            )
        _write(Path(name), kit)


def _write(sites: Path, kit: Path) -> None:
    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = member.name.partition("/")[2]
        return None if path in NEVER_LOADED or "__pycache__" in path else member

    with tempfile.NamedTemporaryFile(suffix=".tar.xz") as whole:
        with tarfile.open(whole.name, "w:xz", preset=3) as archive:
            for environment in CONTENT:
                archive.add(sites / environment, environment, filter=wanted)
        for number in range(1000):
            piece = whole.read(PIECE)
            if not piece:
                return
            (kit / f"kit.tar.xz.{number:02d}").write_bytes(piece)


def unpack(kit: Path, folder: Path) -> None:
    """Two environments in `folder`: the kit's packages stand before the machine's own."""
    with tempfile.NamedTemporaryFile(suffix=".tar.xz") as whole:
        for piece in sorted(kit.glob("kit.tar.xz.*")):
            whole.write(piece.read_bytes())
        whole.flush()
        with tarfile.open(whole.name) as archive:
            archive.extractall(folder / "packages", filter="data")
    for environment in CONTENT:
        _make(folder / environment, (folder / "packages" / environment).resolve())
    program = folder / SUITE / "bin" / "kv-offload"
    program.write_text(
        f"#!{folder / SUITE}/bin/python3\nfrom kv_offload.cli import main\n\nmain()\n"
    )
    program.chmod(0o755)


def _make(environment: Path, packages: Path) -> None:
    builder = venv.EnvBuilder(system_site_packages=True, clear=True, with_pip=False)
    builder.create(environment)
    added = [packages, ROOT] if environment.name == SUITE else [packages]
    (site,) = environment.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({str(path)!r})" for path in added]
    (site / "kit.pth").write_text("\n".join(lines) + "\n")
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
