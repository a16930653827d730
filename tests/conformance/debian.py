"""What the conformance suite needs of the system: shared libraries, redis-server, tini, namespaces.

`python -m tests.conformance.debian` exits 0 when all is there. Otherwise it installs the packages,
as root where apt-get exists, or says which ones to install.
"""

import ctypes
import os
import shutil
import subprocess
import sys

# Debian package -> what it must bring: a library that loads, or a program on the PATH
PACKAGES = {
    "gcc": "gcc",
    "iproute2": "ip",
    "libcurl4": "libcurl.so.4",
    "libibverbs1": "libibverbs.so.1",
    "libnuma1": "libnuma.so.1",
    "librdmacm1": "librdmacm.so.1",
    "mount": "mount",
    "redis-server": "redis-server",
    "tini": "tini",
    "util-linux": "nsenter",
}


def _present(thing: str) -> bool:
    if ".so." not in thing:
        return shutil.which(thing) is not None
    try:
        ctypes.CDLL(thing)
    except OSError:
        return False
    return True


def missing() -> list[str]:
    """The Debian packages that are not there, sorted."""
    return sorted(name for name, thing in PACKAGES.items() if not _present(thing))


def install(names: list[str]) -> None:
    """Install with apt-get; raises CalledProcessError."""
    quiet = {
        "stdout": subprocess.DEVNULL,
        "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    }
    subprocess.run(["apt-get", "update", "-qq"], check=True, **quiet)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names]
    subprocess.run(command, check=True, **quiet)


def main() -> int:
    needed = missing()
    if needed and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing {' '.join(needed)}")
        install(needed)
        needed = missing()
    if needed:
        print(
            f"the conformance suite needs: sudo apt-get install {' '.join(needed)}", file=sys.stderr
        )
    return int(bool(needed))


if __name__ == "__main__":
    sys.exit(main())
