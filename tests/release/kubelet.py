"""What Crossplane's Deployment and a kubelet do for a Function: run its package's own image."""

from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.rig import crossplane, packages
from tests.cluster.rig.kube import Manifest
from tests.cluster.rig.ports import free_ports
from tests.cluster.rig.processes import Part, PartFailed
from tests.cluster.rig.up import Rig
from tests.image.container import Image


@dataclass
class Kubelet:
    """One process per active revision of a Function, unpacked from the registry."""

    rig: Rig
    folder: Path
    name: str
    running: dict[str, tuple[Part, int, int]] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    crashing: dict[str, str] = field(default_factory=dict)

    def tend(self) -> None:
        """Start what is active, say where it listens, then stop what is not."""
        wanted = {revision["spec"]["image"] for revision in self.revisions("Active")}
        for image in wanted - set(self.running) - set(self.crashing):
            try:
                self.running[image] = self._start(image)
            except PartFailed as failed:
                self.crashing[image] = str(failed)
        for image in wanted & set(self.running):
            packages.serve(self.rig.control, self.name, self.running[image][1])
        for image in wanted & set(self.crashing):
            self._say_unhealthy(image)
        # Crossplane deletes the Deployment of an inactive revision, whether or not the other runs.
        for image in set(self.running) - wanted:
            self.running.pop(image)[0].stop()

    def _say_unhealthy(self, image: str) -> None:
        for revision in self.revisions("Active"):
            broken = crossplane.condition("RuntimeHealthy") | {"status": "False"}
            known = (revision.get("status") or {}).get("conditions") or []
            rest = [c for c in known if c["type"] != "RuntimeHealthy"]
            status = {"endpoint": "dns:///localhost:1", "conditions": [*rest, broken]}
            if revision["spec"]["image"] == image:
                self.rig.control.api.patch(revision, {"status": status}, "status")

    def stop(self) -> None:
        for part, _, _ in self.running.values():
            part.stop()

    def metrics_port(self) -> int:
        ((_, _, metrics),) = self.running.values()
        return metrics

    def revisions(self, state: str) -> list[Manifest]:
        labels = f"pkg.crossplane.io/package={self.name}"
        found = self.rig.control.api.list(packages.API, "FunctionRevision", labels=labels)
        return [revision for revision in found if revision["spec"]["desiredState"] == state]

    def _start(self, image: str) -> tuple[Part, int, int]:
        folder = self.folder / image.rpartition(":")[2][:16]
        certificates = self.rig.authority.issue(folder / "tls", self.name)
        port, metrics = free_ports(2)
        # A revision comes back after a rollback; its image is here already.
        if image not in self.images:
            self.images[image] = Image.pull(image, folder / "root")
        unpacked = self.images[image]
        log = self.rig.run / "logs" / f"{folder.name}.log"
        part = unpacked.serving(folder.name, certificates, port, metrics, log)
        part.start()
        try:
            part.wait()
        except PartFailed:
            part.stop()
            raise
        return part, port, metrics
