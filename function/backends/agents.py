"""The pods of a tier: what agents and control planes of all backends share."""

from collections.abc import Iterator, Mapping
from typing import Any

from packaging.version import Version

from function.api.placement import Nodes
from function.contract import platforms
from function.contract.backend import AGENTS, AnyTier, Manifest, Part
from function.contract.image import Image
from function.kube import manifests as k
from function.problems import Problem

# Of evictors and waiters.
HELPER_RESOURCES: Manifest = {
    "requests": {"cpu": "10m", "memory": "64Mi"},
    "limits": {"memory": "128Mi"},
}


def pod(
    tier: AnyTier,
    image: Image,
    uid: int,
    *,
    colocated_with_engines: bool = False,
    nodes: Nodes | None = None,
) -> Manifest:
    """Return a hardened pod spec of user `uid` that pulls `image`.

    `nodes`: instead of the tier's. `colocated_with_engines`: the pod must run on every node with
    engines, so it tolerates the usual taints of GPU nodes.
    """
    nodes = nodes or tier.spec.nodes
    spec: Manifest = k.pod_defaults(uid)
    if nodes.selector:
        spec["nodeSelector"] = dict(nodes.selector)
    tolerations = platforms.tolerations(nodes) if colocated_with_engines else nodes.tolerations
    if tolerations:
        spec["tolerations"] = [toleration.dump() for toleration in tolerations]
    if nodes.priority_class_name:
        spec["priorityClassName"] = nodes.priority_class_name
    if image.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in image.pull_secrets]
    return spec


def daemonset(
    tier: AnyTier,
    key: str,
    meta: Manifest,
    labels: Mapping[str, str],
    pod: Manifest,
    annotations: Mapping[str, str],
) -> Part:
    """Return the agents' DaemonSet, updated by the tier's upgradePolicy."""
    policy = tier.spec.upgrade_policy
    strategy = k.update_strategy(policy.type, policy.max_unavailable)
    manifest = k.workload("DaemonSet", meta, labels, pod, annotations, updateStrategy=strategy)
    ready = k.DAEMONSET_READY_ON_DELETE if policy.type == "OnDelete" else k.DAEMONSET_READY
    return Part(key, manifest, AGENTS, ready, watch=True)


def image_problems(image: Image, backend: str, oldest: Version, why: str) -> Iterator[Problem]:
    """Yield problems with the version in the agents' image.

    `why`: why the version must be known.
    """
    if image.version is None:
        yield Problem(
            "spec.image.version",
            f"must be set: the {backend} version in {image.reference} is unknown, and {why}",
        )
    elif image.version < oldest:
        yield Problem("spec.image", f"{backend} {image.version} is too old: use {oldest} or newer")


def container(image: Image, name: str, **fields: Any) -> Manifest:
    """Return a container of `image` without any capability."""
    return {
        "name": name,
        "image": image.reference,
        "imagePullPolicy": image.pull_policy,
        "securityContext": k.container_security(),
        **fields,
    }


def resources(cpu: int, memory: Mapping[str, str]) -> Manifest:
    """Return resources with a memory limit equal to the request, and no CPU limit."""
    return {"requests": {"cpu": str(cpu), **memory}, "limits": dict(memory)}


def ports(**named: int) -> list[Manifest]:
    """Return container ports by name."""
    return [{"name": n, "containerPort": p, "protocol": "TCP"} for n, p in named.items()]
