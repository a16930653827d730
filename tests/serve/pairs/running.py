"""What a tier put on its cluster, as it runs."""

from abc import ABC, abstractmethod

from tests.conformance.container import Container
from tests.conformance.manifests import Manifest, one
from tests.conformance.pod import Pod
from tests.serve.site import Site
from tests.serve.wiring import Declared

GIB = 2**30


class Running(ABC):
    """The workloads of a tier's manifests. `parts`: what may fail, by name -> its pod. `memory`:
    bytes for blocks, of what starts from now on.
    """

    memory = GIB

    def __init__(self, site: Site, declared: Declared):
        self.site, self.declared = site, declared
        self.parts: dict[str, Pod] = {}
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Start every part and wait until it is ready."""

    @abstractmethod
    def begin(self, part: str) -> None:
        """Start one part; it is not awaited."""

    def replace(self, part: str) -> None:
        """Stop a part's pod as a roll-out does, and start another in its place."""
        self.stop(part)
        self.begin(part)
        self.parts[part].wait_ready(120)

    def stop(self, part: str) -> None:
        """Stop a part's pod within its grace period."""
        self.site.retire(self.parts.pop(part))

    def kill(self, part: str) -> None:
        """SIGKILL to its first container, as the out-of-memory killer would."""
        self.container(part).kill()

    def container(self, part: str) -> Container:
        """The first container of a part's pod, after those that it starts with."""
        pod = self.parts[part]
        return pod.containers[pod.spec["containers"][0]["name"]]

    def manifest(self, kind: str, name: str = "") -> Manifest:
        return one(self.declared.manifests, kind, name)

    def service(self, name: str, pod: Pod) -> None:
        """From now on the emitted Service of that name, or the only one whose name has it, has this
        pod behind it."""
        services = [m["metadata"] for m in self.declared.manifests if m["kind"] == "Service"]
        exact = [meta for meta in services if meta["name"] == name]
        (meta,) = exact or [meta for meta in services if name in meta["name"]]
        self.site.node.service(f"{meta['name']}.{meta['namespace']}.svc", pod.address)

    def mounted(self) -> None:
        """Put the emitted ConfigMaps on the node, for pods that mount them."""
        for manifest in self.declared.manifests:
            if manifest["kind"] == "ConfigMap":
                self.site.node.config_maps[manifest["metadata"]["name"]] = manifest["data"]

    def close(self) -> None:
        """Stop every part that is left, without grace."""
        for pod in self.parts.values():
            self.site.remove(pod)


class Nothing(Running):
    """A tier that is only what engines are told."""

    def start(self) -> None:
        assert not any("template" in m.get("spec", {}) for m in self.declared.manifests)

    def begin(self, part: str) -> None:
        raise LookupError(part)
