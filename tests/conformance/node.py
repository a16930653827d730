"""A node and its cluster, as far as a pod can tell: addresses, names, Secrets, volumes.

Lives in the namespaces that `run.py` made. Pods get addresses on a bridge and reach each other by
the names given to `service`, which stand in every pod's /etc/hosts in the place of cluster DNS.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.run import MARK

NETWORK = "10.77.0"
HOST_IP = f"{NETWORK}.1"
ROOT, USER = "root", "user"


class NotIsolated(Exception):
    """pytest was started by hand where pods need namespaces of their own."""


class Node:
    """One node named `name`; its cluster's Secrets and ConfigMaps are name -> {key: text}."""

    def __init__(self, name: str = "node-a"):
        if os.environ.get(MARK) not in (ROOT, USER):
            raise NotIsolated("run it with: make conformance (or python -m tests.conformance.run)")
        self.name = name
        self.can_change_user = os.environ[MARK] == ROOT
        self.secrets: dict[str, Mapping[str, str]] = {}
        self.config_maps: dict[str, Mapping[str, str]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="node-"))
        self.folder.chmod(0o755)
        self._numbers = itertools.count(2)
        self._services: dict[str, str] = {}
        self._links: list[str] = []
        self._network()
        self._write_hosts()

    def close(self) -> None:
        """Remove the node's files; its pods must be stopped."""
        # The kernel takes a dead pod's link away when it likes, and the next node wants its name.
        for link in self._links:
            subprocess.run(["ip", "link", "del", link], capture_output=True)
        subprocess.run(["ip", "link", "del", "br0"], check=True)
        for mounted in ("shm",):
            with contextlib.suppress(subprocess.CalledProcessError):
                subprocess.run(["umount", self.folder / mounted], check=True, capture_output=True)
        shutil.rmtree(self.folder)

    def _network(self) -> None:
        for words in (
            "link set lo up",
            "link add br0 type bridge",
            f"addr add {HOST_IP}/24 dev br0",
            "link set br0 up",
        ):
            subprocess.run(["ip", *words.split()], check=True)

    def address(self) -> str:
        """A pod address that no pod of this node has had."""
        return f"{NETWORK}.{next(self._numbers)}"

    def attach(self, holder: int, address: str) -> None:
        """Give the network namespace of the process `holder` that address on the bridge."""
        link = f"veth{address.rsplit('.', 1)[1]}"
        self._links.append(link)
        inside = ["nsenter", "-t", str(holder), "-n", "ip"]
        for command in (
            ["ip", *f"link add {link} type veth peer name eth0 netns {holder}".split()],
            ["ip", *f"link set {link} master br0 up".split()],
            [*inside, *f"addr add {address}/24 dev eth0".split()],
            [*inside, *["link", "set", "lo", "up"]],
            [*inside, *["link", "set", "eth0", "up"]],
        ):
            subprocess.run(command, check=True)

    # names

    def service(self, name: str, address: str) -> None:
        """Let `name` (a DNS name as it stands in a manifest) resolve to a pod's address."""
        self._services[name] = address
        self._write_hosts()

    @property
    def hosts(self) -> Path:
        return self.folder / "hosts"

    def _write_hosts(self) -> None:
        lines = ["127.0.0.1 localhost", f"{HOST_IP} {self.name}"]
        lines += [f"{address} {name}" for name, address in sorted(self._services.items())]
        self.hosts.write_text("\n".join(lines) + "\n")  # the same inode: pods see the change

    # volumes

    def volume(self, kind: str, name: str, mode: int = 0o755) -> Path:
        """A folder that outlives pods: of a host path, a claim. Made like the kubelet makes it."""
        path = self.folder / kind / name.strip("/").replace("/", "-")
        if not path.exists():
            path.mkdir(parents=True)
            path.chmod(mode)
        return path

    def shared_memory(self) -> Path:
        """The node's own /dev/shm, apart from the machine's."""
        path = self.folder / "shm"
        if not path.exists():
            path.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(path)]
            subprocess.run(command, check=True)
        return path
