"""What the pods of master, stores and etcd have in common."""

from typing import Any

from function.backends import agents
from function.backends.mooncake import facts
from function.backends.mooncake.facts import Tier
from function.contract.backend import Manifest
from function.kube import manifests as k


def base(tier: Tier, uid: int = facts.UID, *, colocated_with_engines: bool = False) -> Manifest:
    """A hardened pod on the tier's nodes that pulls the tier's image."""
    return agents.pod(tier, facts.image(tier), uid, colocated_with_engines=colocated_with_engines)


def control_plane(tier: Tier) -> Manifest:
    """A pod of master or etcd: on nodes of their own, and not the GPU nodes'."""
    nodes = facts.spec(tier).control_plane_nodes
    return agents.pod(tier, facts.image(tier), facts.UID, nodes=nodes)


def container(tier: Tier, name: str, **fields: Any) -> Manifest:
    """A container of the tier's image without any capability."""
    return agents.container(facts.image(tier), name, **fields)


def resources(cpu: int, memory_gib: int) -> Manifest:
    """Memory is limited to what it asks for; CPU is asked for and not limited."""
    return agents.resources(cpu, {"memory": f"{memory_gib}Gi"})


def labels(tier: Tier, component: str) -> dict[str, str]:
    """The selector of a component's pods."""
    return k.component(tier.labels, component)


def meta(tier: Tier, component: str, *, versioned: bool = False) -> Manifest:
    """Metadata of a component's objects; workloads carry the version of Mooncake they run."""
    component_labels = labels(tier, component)
    version = facts.image(tier).version
    if versioned and version is not None:
        component_labels["app.kubernetes.io/version"] = str(version)
    return k.metadata(facts.name(tier, component), tier.remote_namespace, component_labels)


def apart(selector: dict[str, str], *, required: bool = False) -> Manifest:
    """Affinity that puts no two pods of a selector on one node, where possible or always."""
    term = {
        "labelSelector": {"matchLabels": dict(selector)},
        "topologyKey": "kubernetes.io/hostname",
    }
    if required:
        rule: Manifest = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    else:
        rule = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": term}
            ]
        }
    return {"podAntiAffinity": rule}
