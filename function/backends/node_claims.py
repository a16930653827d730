"""Read from composed manifests what a tier has of a cluster that no other tier can have.

Only what is on the host counts: a hostPort (or the port of a pod on the host's network), and a
hostPath that is the tier's own. Two DaemonSets meet where their node selectors can match one node.
Of a claim only an evictor's directory counts: two would each remove the other's files.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from function.backends import evictor, host_paths
from function.contract.backend import Part
from function.kube import access
from function.kube.access import Json

_PORT, _DIRECTORY, _EVICTOR = "host port", "host directory", "evictor of"


@dataclass(frozen=True)
class NodeClaim:
    """What a tier has of a cluster, and no other tier can have.

    `kind`: "host port", "host directory" or "evictor of". `value`: the port, or the directory.
    `nodes`: the selector of the nodes, None where the nodes do not matter. `said`: by the spec.
    """

    kind: str
    value: str
    nodes: tuple[tuple[str, str], ...] | None
    said: str

    def meets(self, other: "NodeClaim") -> bool:
        """Return whether both claims are of one thing on one node."""
        if self.kind != other.kind or not access.can_both_match(
            dict(self.nodes or ()), dict(other.nodes or ())
        ):
            return False
        if self.kind == _PORT:
            return self.value == other.value
        mine, theirs = f"{self.value}/", f"{other.value}/"
        return mine.startswith(theirs) or theirs.startswith(mine)


def claims(parts: Iterable[Part]) -> list[NodeClaim]:
    """Return what these parts of a tier claim of its cluster's nodes and volumes."""
    found: list[NodeClaim] = []
    for part in parts:
        pod = access.mapping(part.manifest, "spec", "template", "spec")
        namespace = access.text(part.manifest, "metadata", "namespace")
        nodes = tuple(sorted(access.texts(pod, "nodeSelector").items()))
        for kind, value, said in _of_pod(pod, namespace):
            found.append(NodeClaim(kind, value, None if kind == _EVICTOR else nodes, said))
    return found


def _of_pod(pod: Json, namespace: str) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, value, what the spec's field says) of a pod's claims."""
    containers = [*access.objects(pod, "containers"), *access.objects(pod, "initContainers")]
    on_host = pod.get("hostNetwork") is True
    for container in containers:
        for port in access.objects(container, "ports"):
            number = port.get("hostPort") or (port.get("containerPort") if on_host else None)
            if number:
                yield _PORT, f"{number}/{port.get('protocol', 'TCP')}", str(number)
    written = {
        access.text(mount, "name")
        for container in containers
        for mount in access.objects(container, "volumeMounts")
        if mount.get("readOnly") is not True
    }
    for volume in access.objects(pod, "volumes"):
        path = access.text(volume, "hostPath", "path")
        is_own = path and host_paths.find_problem(path, "") is None
        if is_own and access.text(volume, "name") in written:
            yield _DIRECTORY, host_paths.normalise(path), path
    for container in containers:
        if access.text(container, "name") == evictor.NAME:
            yield from _evicted(pod, container, namespace)


def _evicted(pod: Json, container: Json, namespace: str) -> Iterator[tuple[str, str, str]]:
    """Yield the directories of claims that an evictor bounds."""
    claims_ = {
        access.text(volume, "name"): access.text(volume, "persistentVolumeClaim", "claimName")
        for volume in access.objects(pod, "volumes")
    }
    for directory in _directories(container):
        for mount in access.objects(container, "volumeMounts"):
            claim, at = claims_.get(access.text(mount, "name")), access.text(mount, "mountPath")
            if claim and f"{directory}/".startswith(f"{at}/"):
                below = f"{access.text(mount, 'subPath')}/{directory.removeprefix(at)}"
                inside = host_paths.normalise(below).rstrip("/")
                yield _EVICTOR, f"claim {namespace}/{claim}{inside}", claim


def _directories(container: Json) -> list[str]:
    """Return the directories of an evictor's configuration, its only argument."""
    words = container.get("args") or ["{}"]
    config = json.loads(words[0].replace("$$", "$"))
    return [access.text(row, "path") for row in access.objects(config, "directories")]
