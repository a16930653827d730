"""The pods of a tier: what agents and control planes of all backends share."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from function.api.placement import Nodes
from function.api.tier import Monitoring
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


def pod_monitor(
    tier: AnyTier,
    name: str,
    selector: Manifest,
    ports: Sequence[str],
    pod_labels: Sequence[str] = ("app.kubernetes.io/instance",),
) -> Manifest | None:
    """Return a PodMonitor of the pods of `selector`, None unless the tier asks for it."""
    monitoring = tier.spec.monitoring
    if monitoring is None or not monitoring.pod_monitor:
        return None
    endpoints = [{"port": port} for port in ports]
    return _monitor(tier, monitoring, name, {"selector": selector}, endpoints, pod_labels)


def engine_monitor(tier: AnyTier) -> list[Part]:
    """Return a PodMonitor of the tier's wired engines, if the tier asks for it."""
    monitoring = tier.spec.monitoring
    if monitoring is None or not monitoring.engine_ports:
        return []
    labels = tier.wired_labels
    pods: Manifest = {"namespaceSelector": {"any": True}, "selector": {"matchLabels": labels}}
    endpoints = [{"portNumber": port} for port in monitoring.engine_ports]
    name = f"{tier.remote_name}-engines"
    return [
        Part("podmonitor-engines", _monitor(tier, monitoring, name, pods, endpoints, [*labels]))
    ]


def _monitor(
    tier: AnyTier,
    monitoring: Monitoring,
    name: str,
    pods: Manifest,
    endpoints: Sequence[Manifest],
    pod_labels: Sequence[str],
) -> Manifest:
    every = f"{monitoring.interval_seconds}s"
    labels = {**monitoring.pod_monitor_labels, **tier.labels}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": k.metadata(name, tier.remote_namespace, labels),
        "spec": {
            **pods,
            "podMetricsEndpoints": [
                {**endpoint, "path": "/metrics", "interval": every} for endpoint in endpoints
            ],
            "podTargetLabels": list(pod_labels),
        },
    }


@dataclass(frozen=True)
class Alert:
    """One alert, a row of a backend's alerts.yaml.

    `expression`: PromQL; <pods> selects the tier's own pods. `duration`: how long it must hold.
    `of_levels`: only where the tier has levels below its memory.
    """

    name: str
    expression: str
    duration: str
    summary: str
    of_levels: bool = False


def prometheus_rule(tier: AnyTier, name: str, alerts: Iterable[Alert], pods: str) -> Manifest:
    """Return a PrometheusRule with the labels of the tier's PodMonitor.

    `pods`: the beginning of the names of the pods that the alerts are on.
    """
    monitoring = tier.spec.monitoring
    labels = {**(monitoring.pod_monitor_labels if monitoring else {}), **tier.labels}
    mine = f'{{namespace="{tier.remote_namespace}",pod=~"{pods}-.*"}}'
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression.replace("<pods>", mine),
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
