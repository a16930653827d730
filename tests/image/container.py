"""An unpacked image as a process: its entrypoint, its user, a read-only root, no new privileges."""

import json
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig.ports import listening
from tests.cluster.rig.processes import Part
from tools.release.image import tool

# What a container runtime does: mounts, a read-only root, the image's user, no way to more rights.
_START = """root=$1 certificates=$2 user=$3; shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$certificates" "$root/tls/server"
mount -o remount,bind,ro "$root"
export TLS_SERVER_CERTS_DIR=/tls/server
exec setpriv --no-new-privs chroot --userspec="$user" "$root" "$@"
"""


@dataclass(frozen=True)
class Image:
    """The unpacked files of an image, and its configuration."""

    root: Path
    user: str
    entrypoint: tuple[str, ...]
    environment: dict[str, str]

    @classmethod
    def pull(cls, reference: str, folder: Path) -> "Image":
        """Unpack what a registry has."""
        archive = folder.with_suffix(".tar")
        folder.mkdir(parents=True)
        tool("crane", "export", reference, archive)
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="tar")
        archive.unlink()
        for mounted in ("dev", "tls/server"):
            (folder / mounted).mkdir(parents=True, exist_ok=True)
        declared = json.loads(tool("crane", "config", reference))["config"]
        environment = dict(pair.split("=", 1) for pair in declared["Env"])
        return cls(folder, declared["User"], tuple(declared["Entrypoint"]), environment)

    def command(self, certificates: Path, *arguments: str, **environment: str) -> list[str]:
        """Return what starts a program in the image: `arguments`, or flags of the entrypoint."""
        certificates.chmod(0o755)
        for file in certificates.iterdir():
            file.chmod(0o644)
        start = ["unshare", "--mount", "sh", "-ec", _START, "sh", str(self.root)]
        argv = arguments if arguments[0].startswith("/") else (*self.entrypoint, *arguments)
        pairs = [f"{k}={v}" for k, v in (self.environment | environment).items()]
        return [
            "env",
            "--ignore-environment",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            *pairs,
            *start,
            str(certificates),
            self.user,
            *argv,
        ]

    def serving(
        self, name: str, certificates: Path, port: int, metrics: int, log: Path, *flags: str
    ) -> Part:
        """The function, not started yet; ready when it listens."""
        address = ("--address", f"127.0.0.1:{port}", *flags)
        argv = self.command(certificates, *address, METRICS_PORT=str(metrics))
        return Part(name, argv, log, lambda: listening(port))


def peak_mib(pid: int) -> float:
    """Return the peak resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (row for row in status.splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def in_image(image: Image, certificates: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the image to its end."""
    command = image.command(certificates, *argv)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
