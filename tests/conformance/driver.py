"""A stand-in for NVIDIA's driver that shows one GPU, for probes alone.

The probe that a container starts with asks the driver for its GPUs; this machine has none. The
server itself does not get it: it runs on the CPU.
"""

import functools
import subprocess
import tempfile
from pathlib import Path

PATH = "/opt/nvidia-driver"  # inside of a container
_SOURCE = "int cuInit(unsigned f) { return 0; } int cuDeviceGetCount(int *n) { *n = 1; return 0; }"
_keep: list["tempfile.TemporaryDirectory[str]"] = []


@functools.cache
def folder() -> Path:
    """A folder with `libcuda.so.1`, built once a run."""
    _keep.append(tempfile.TemporaryDirectory(prefix="driver-"))
    made = Path(_keep[-1].name)
    made.chmod(0o755)
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-o", made / "libcuda.so.1", "-"]
    subprocess.run([*map(str, command)], input=_SOURCE, text=True, check=True)
    return made
