"""Empty shared libraries in the place of the CUDA libraries that torch links against.

torch's PyPI build for Linux names a dozen CUDA libraries (2.5 GB) that a machine without a GPU
loads and never calls. The loader needs a file of the right name; the functions in it are bound when
first called, if libraries are opened lazily. Python opens extension modules eagerly, hence a `.pth`
line that makes lazy opening the default of the environment. A GPU function called by mistake ends
the process with "symbol lookup error": it cannot give a wrong result.

Source of the names: the NEEDED entries of torch 2.13.0's libraries, less those whose data torch
binds at load time (libcudart, libcufile), which are really installed.
"""

import struct
from pathlib import Path

LIBRARIES = (
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.12",
    "libcupti.so.13",
    "libcurand.so.10",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvrtc.so.13",
    "libnvshmem_host.so.3",
)
LAZY_BINDING = "import os, sys; sys.setdlopenflags(os.RTLD_LAZY)\n"
MACHINES = {"x86_64": 62, "aarch64": 183}  # ELF e_machine

_HEADER, _SEGMENT, _SYMBOL = 64, 56, 24  # sizes of the ELF64 structures
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 4, 5, 6, 10, 11, 14


def shared_library(soname: str, machine: str) -> bytes:
    """A valid ELF64 shared object that defines nothing but its own name."""
    strings = b"\0" + soname.encode() + b"\0"
    symbols = bytes(_SYMBOL)  # the mandatory null symbol
    buckets = struct.pack("<4I", 1, 1, 0, 0)
    symbols_at = _HEADER + 2 * _SEGMENT
    buckets_at = symbols_at + len(symbols)
    strings_at = buckets_at + len(buckets)
    dynamic_at = -(-(strings_at + len(strings)) // 8) * 8
    entries = [
        (_DT_SONAME, 1),
        (_DT_HASH, buckets_at),
        (_DT_STRTAB, strings_at),
        (_DT_SYMTAB, symbols_at),
        (_DT_STRSZ, len(strings)),
        (_DT_SYMENT, _SYMBOL),
        (0, 0),
    ]
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    size = dynamic_at + len(dynamic)
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bit, little endian
    header = identity + struct.pack(
        "<HHIQQQIHHHHHH", 3, MACHINES[machine], 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, 2, 64, 0, 0
    )
    load = struct.pack("<IIQQQQQQ", 1, 6, 0, 0, 0, size, size, 0x1000)
    table = struct.pack(
        "<IIQQQQQQ", 2, 6, dynamic_at, dynamic_at, dynamic_at, len(dynamic), len(dynamic), 8
    )
    body = header + load + table + symbols + buckets + strings
    return body.ljust(dynamic_at, b"\0") + dynamic


def install(site_packages: Path, machine: str) -> None:
    """Put the placeholders where torch's run path looks, and lazy binding into the environment."""
    folder = site_packages / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    for soname in LIBRARIES:
        path = folder / soname
        path.unlink(missing_ok=True)  # never write through a hard link into uv's cache
        path.write_bytes(shared_library(soname, machine))
    (site_packages / "lazy_binding.pth").write_text(LAZY_BINDING)
