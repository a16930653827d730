"""The blocks of a tier that keeps no checksum, for tests that change them where they lie."""

import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from urllib.parse import urlencode

from tests.conformance import mooncake
from tests.serve import author
from tests.serve.fleet import Fleet
from tests.serve.test_70_full import shared
from tests.serve.wiring import Wired

CHANGED = ".changed"


class Store(ABC):
    """Blocks by name."""

    @abstractmethod
    def names(self) -> Set[str]:
        """The blocks that are there."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A block."""

    @abstractmethod
    def write(self, name: str, block: bytes) -> None:
        """Put another one in its place."""

    def remove(self, name: str) -> None:  # noqa: B027 - most evict
        """Remove a block, where the store does not by itself."""

    def forget(self) -> None:  # noqa: B027 - most have no other place
        """Leave blocks in this store alone."""


class Files(Store):
    def __init__(self, folder: Path):
        self.folder = folder

    def names(self) -> Set[str]:
        return {str(path) for path in self.folder.rglob("*") if _is_block(path)}

    def read(self, name: str) -> bytes:
        return Path(name).read_bytes()

    def write(self, name: str, block: bytes) -> None:
        changed = Path(name + CHANGED)
        changed.write_bytes(block)
        changed.replace(name)

    def remove(self, name: str) -> None:
        Path(name).unlink(missing_ok=True)


def _is_block(path: Path) -> bool:
    return path.is_file() and path.suffix != CHANGED and "tmp" not in path.name


class BelowMemory(Files):
    """LMCache's files; its server has the blocks in its memory too."""

    def __init__(self, folder: Path, server: str):
        super().__init__(folder)
        self.server = server

    def forget(self) -> None:
        _asked("POST", f"{self.server}/cache/clear", b"{}")


class Objects(Store):
    """The objects of a Mooncake pool, by a client of it. It evicts."""

    def __init__(self, master: str, client: str):
        self.master, self.client = master, client

    def names(self) -> Set[str]:
        return set(_asked("GET", f"{self.master}/get_all_keys").decode().split())

    def read(self, name: str) -> bytes:
        return _asked("GET", f"{self.client}/block?{urlencode({'name': name})}")

    def write(self, name: str, block: bytes) -> None:
        said = _asked("PUT", f"{self.client}/block?{urlencode({'name': name})}", block)
        assert said == b"0", (name, said)


def _asked(method: str, where: str, body: bytes | None = None) -> bytes:
    header = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{where}", body, header, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def _files(fleet: Fleet) -> Store:
    return Files(shared(fleet, {"spec": fleet.engines["first"].pod.spec}))


def _node_files(fleet: Fleet) -> Store:
    agent = fleet.tier.parts["agent"]
    paths = [volume["hostPath"]["path"] for volume in agent.spec["volumes"] if "hostPath" in volume]
    (path,) = (path for path in paths if path.startswith("/mnt/"))
    return BelowMemory(fleet.site.node.volume("host", path), f"{agent.address}:8080")


def _objects(fleet: Fleet) -> Store:
    wired = fleet.wired({"main": author.USUAL})
    templates = {name: mooncake.as_client(found) for name, found in wired.templates.items()}
    client = fleet.run("client", Wired(templates, wired.config_maps))
    client.wait(60)
    at = f"{client.pod.address}:{mooncake.CLIENT_PORT}"
    return Objects(f"{fleet.tier.parts['master'].address}:9003", at)


# By the pair's name.
STORES: Mapping[str, Callable[[Fleet], Store]] = {
    "vllm-lmcache-disk": _node_files,
    "vllm-mooncake": _objects,
    "sglang-hicache-file": _files,
}
