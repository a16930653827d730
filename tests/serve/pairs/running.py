"""What a tier put on its cluster, as it runs."""

from abc import ABC, abstractmethod

from tests.conformance.manifests import Manifest, one
from tests.conformance.pod import Pod
from tests.serve.site import Site
from tests.serve.wiring import Declared


class Running(ABC):
    """The workloads of a tier's manifests. `parts`: what may fail, by name -> its pod."""

    def __init__(self, site: Site, declared: Declared):
        self.site, self.declared = site, declared
        self.parts: dict[str, Pod] = {}
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Start every part and wait until it is ready."""

    @abstractmethod
    def replace(self, part: str) -> None:
        """Stop a part's pod as a roll-out does, and start another in its place."""

    def kill(self, part: str) -> None:
        """SIGKILL to its first container, as the out-of-memory killer would."""
        pod = self.parts[part]
        pod.containers[pod.spec["containers"][0]["name"]].kill()

    def manifest(self, kind: str, name: str = "") -> Manifest:
        return one(self.declared.manifests, kind, name)

    def service(self, name: str, pod: Pod) -> None:
        """From now on the emitted Service of that name has this pod behind it."""
        meta = self.manifest("Service", name)["metadata"]
        self.site.node.service(f"{meta['name']}.{meta['namespace']}.svc", pod.address)

    def close(self) -> None:
        """Stop every part that is left, without grace."""
        for pod in self.parts.values():
            self.site.remove(pod)
