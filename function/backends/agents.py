"""The pods of a tier: what agents and control plane of every backend have in common."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from function.api.placement import Nodes
from function.contract import platforms
from function.contract.backend import AGENTS, AnyTier, Manifest, Part
from function.contract.image import Image
from function.kube import manifests as k
from function.problems import Problem


def pod(
    tier: AnyTier,
    image: Image,
    uid: int,
    *,
    colocated_with_engines: bool = False,
    nodes: Nodes | None = None,
) -> Manifest:
    """A hardened pod of user `uid` that pulls `image`, on the tier's nodes or on `nodes`.

    `colocated_with_engines`: it must run on every node with engines, so it tolerates the usual
    taints of GPU nodes.
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
    tier: AnyTier, key: str, meta: Manifest, selector: Mapping[str, str], template: Manifest
) -> Part:
    """The agents, one on each of the tier's nodes, replaced as its upgradePolicy says."""
    policy = tier.spec.upgrade_policy
    manifest: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": meta,
        "spec": {
            "selector": {"matchLabels": dict(selector)},
            "updateStrategy": k.update_strategy(policy.type, policy.max_unavailable),
            "template": template,
        },
    }
    ready = k.DAEMONSET_READY_ON_DELETE if policy.type == "OnDelete" else k.DAEMONSET_READY
    return Part(key, manifest, AGENTS, ready, watch=True)


def image_problems(image: Image, backend: str, oldest: Version, why: str) -> Iterator[Problem]:
    """What is wrong with the version in the agents' image; `why` nobody can do without one."""
    if image.version is None:
        yield Problem(
            "spec.image.version",
            f"must be set: {image.reference} does not tell which {backend} it contains, and {why}",
        )
    elif image.version < oldest:
        yield Problem(
            "spec.image",
            f"{backend} {image.version} is too old: the oldest that is supported is {oldest}",
        )


def container(image: Image, name: str, **fields: Any) -> Manifest:
    """A container of `image` without any capability."""
    return {
        "name": name,
        "image": image.reference,
        "imagePullPolicy": image.pull_policy,
        "securityContext": k.container_security(),
        **fields,
    }


def resources(cpu: int, memory: Mapping[str, str]) -> Manifest:
    """Memory is limited to what it asks for; CPU is asked for and not limited."""
    return {"requests": {"cpu": str(cpu), **memory}, "limits": dict(memory)}


def ports(**named: int) -> list[Manifest]:
    """Container ports by name."""
    return [{"name": n, "containerPort": p, "protocol": "TCP"} for n, p in named.items()]


def pod_monitor(
    tier: AnyTier,
    name: str,
    selector: Manifest,
    ports: Sequence[str],
    pod_labels: Sequence[str] = ("app.kubernetes.io/instance",),
) -> Manifest | None:
    """A PodMonitor of the pods of `selector`, where the tier asks for one."""
    monitoring = tier.spec.monitoring
    if monitoring is None or not monitoring.pod_monitor:
        return None
    labels = {**monitoring.pod_monitor_labels, **tier.labels}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": k.metadata(name, tier.remote_namespace, labels),
        "spec": {
            "selector": selector,
            "podMetricsEndpoints": [
                {"port": port, "path": "/metrics", "interval": f"{monitoring.interval_seconds}s"}
                for port in ports
            ],
            "podTargetLabels": list(pod_labels),
        },
    }


def engine_monitor(tier: AnyTier) -> list[Part]:
    """A PodMonitor of the tier's wired engines in every namespace, where the tier asks for one."""
    monitoring = tier.spec.monitoring
    if monitoring is None or not monitoring.engine_ports:
        return []
    name = f"{tier.remote_name}-engines"
    labels = {**monitoring.pod_monitor_labels, **tier.labels}
    every = f"{monitoring.interval_seconds}s"
    manifest: Manifest = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": k.metadata(name, tier.remote_namespace, labels),
        "spec": {
            "namespaceSelector": {"any": True},
            "selector": {"matchLabels": tier.wired_labels},
            "podMetricsEndpoints": [
                {"portNumber": port, "path": "/metrics", "interval": every}
                for port in monitoring.engine_ports
            ],
            "podTargetLabels": list(tier.wired_labels),
        },
    }
    return [Part("podmonitor-engines", manifest)]


@dataclass(frozen=True)
class Alert:
    """One alert: a PromQL expression that holds for so long, and what it means for users."""

    name: str
    expression: str
    duration: str
    summary: str


def prometheus_rule(tier: AnyTier, name: str, alerts: Iterable[Alert]) -> Manifest:
    """A PrometheusRule of a tier's alerts, found by the labels of its PodMonitor."""
    monitoring = tier.spec.monitoring
    labels = {**(monitoring.pod_monitor_labels if monitoring else {}), **tier.labels}
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.duration,
            "labels": {"severity": "warning", "tier": tier.remote_name},
            "annotations": {"summary": alert.summary},
        }
        for alert in alerts
    ]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": k.metadata(name, tier.remote_namespace, labels),
        "spec": {"groups": [{"name": tier.remote_name, "rules": rules}]},
    }
