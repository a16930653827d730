"""Common parts of the pods of master, stores and etcd."""

from typing import Any

from function.backends import agents
from function.backends.mooncake import facts
from function.backends.mooncake.facts import Tier
from function.contract.backend import Manifest
from function.kube import manifests as k

# Of init containers and sidecars.
HELPER_RESOURCES: Manifest = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"memory": "64Mi"},
}


def base(tier: Tier, uid: int = facts.UID, *, colocated_with_engines: bool = False) -> Manifest:
    """Return a hardened pod on the tier's nodes that pulls the tier's image."""
    return agents.pod(tier, facts.image(tier), uid, colocated_with_engines=colocated_with_engines)


def control_plane(tier: Tier) -> Manifest:
    """Return a pod of master or etcd, on the control plane's nodes."""
    nodes = tier.settings.control_plane_nodes
    return agents.pod(tier, facts.image(tier), facts.UID, nodes=nodes)


def container(tier: Tier, name: str, **fields: Any) -> Manifest:
    """Return a container of the tier's image without any capability."""
    return agents.container(facts.image(tier), name, **fields)


def resources(cpu: int, memory_gib: int) -> Manifest:
    """Return resources with a memory limit equal to the request, and no CPU limit."""
    return agents.resources(cpu, {"memory": f"{memory_gib}Gi"})


def labels(tier: Tier, component: str) -> dict[str, str]:
    """Return the selector of a component's pods."""
    return k.component(tier.labels, component)


def meta(tier: Tier, component: str, *, versioned: bool = False) -> Manifest:
    """Return a component's metadata; workloads carry their Mooncake version."""
    component_labels = labels(tier, component)
    version = facts.image(tier).version
    if versioned and version is not None:
        component_labels["app.kubernetes.io/version"] = str(version)
    return k.metadata(facts.name(tier, component), tier.remote_namespace, component_labels)


def spread(selector: dict[str, str]) -> Manifest:
    """Return affinity that puts no two pods of a selector on one node, if possible."""
    term = {
        "labelSelector": {"matchLabels": dict(selector)},
        "topologyKey": "kubernetes.io/hostname",
    }
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
