"""Builders of Kubernetes manifests: plain dicts, least privilege.

Every builder returns a new dict, so that callers may add to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]

_OBSERVED = (
    "has(object.status.observedGeneration)"
    " && object.status.observedGeneration == object.metadata.generation"
)

# A DaemonSet whose every scheduled pod runs the current template. No node at all counts as ready:
# pools of GPU nodes scale from zero, and a tier must not wait for the first pod that needs it.
DAEMONSET_READY = (
    f"{_OBSERVED}"
    " && has(object.status.desiredNumberScheduled)"
    " && (object.status.desiredNumberScheduled == 0 ||"
    " (has(object.status.updatedNumberScheduled) && has(object.status.numberReady)"
    " && object.status.updatedNumberScheduled == object.status.desiredNumberScheduled"
    " && object.status.numberReady == object.status.desiredNumberScheduled))"
)

# With OnDelete an administrator replaces the pods: old templates do not count.
DAEMONSET_READY_ON_DELETE = (
    f"{_OBSERVED}"
    " && has(object.status.desiredNumberScheduled)"
    " && (object.status.desiredNumberScheduled == 0 || (has(object.status.numberReady)"
    " && object.status.numberReady == object.status.desiredNumberScheduled))"
)

STATEFULSET_READY = (
    f"{_OBSERVED}"
    " && has(object.status.readyReplicas) && has(object.status.updatedReplicas)"
    " && object.status.readyReplicas == object.spec.replicas"
    " && object.status.updatedReplicas == object.spec.replicas"
)

# A Deployment has the same status fields.
DEPLOYMENT_READY = STATEFULSET_READY

# With OnDelete an administrator replaces the pods, also here.
STATEFULSET_READY_ON_DELETE = (
    f"{_OBSERVED}"
    " && has(object.status.readyReplicas)"
    " && object.status.readyReplicas == object.spec.replicas"
)

# A Deployment whose pods are all of the current template, and one of them is ready: the leader.
# The others wait to take over; they serve nothing, and are never ready.
LEADER_READY = (
    f"{_OBSERVED}"
    " && has(object.status.updatedReplicas) && has(object.status.readyReplicas)"
    " && object.status.updatedReplicas == object.spec.replicas"
    " && object.status.readyReplicas >= 1"
)


def metadata(
    name: str,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Return an ObjectMeta without empty parts."""
    out: Manifest = {"name": name}
    if namespace:
        out["namespace"] = namespace
    if labels:
        out["labels"] = dict(labels)
    if annotations:
        out["annotations"] = dict(annotations)
    return out


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Manifest:
    """Return a Namespace that tiers share: without the labels of any one tier."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name, labels=labels)}


def component(labels: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the labels with `app.kubernetes.io/component` set.

    They are the selector of one workload of a tier.
    """
    return {**labels, "app.kubernetes.io/component": name}


def service(
    meta: Manifest,
    selector: Mapping[str, str],
    ports: Mapping[str, int],
    *,
    node_local: bool = False,
    headless: bool = False,
) -> Manifest:
    """Return a ClusterIP Service whose ports target container ports of the same name.

    `node_local`: traffic stays on the client's node, and is dropped where no pod is ready.
    """
    spec: Manifest = {
        "selector": dict(selector),
        "ports": [
            {"name": name, "port": port, "protocol": "TCP", "targetPort": name}
            for name, port in ports.items()
        ],
    }
    if headless:
        spec["clusterIP"] = "None"
    if node_local:
        spec["internalTrafficPolicy"] = "Local"
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def ingress(
    ports: Iterable[int | tuple[int, int]],
    *,
    pods: Mapping[str, str] | None = None,
    namespaces: Mapping[str, str] | None = None,
) -> Manifest:
    """Return a NetworkPolicy ingress rule for TCP ports; a pair is an inclusive range.

    `pods`: labels of the pods that may connect, of any namespace unless `namespaces` gives labels.
    `namespaces` alone admits every pod of those namespaces.
    """
    peer: Manifest = {"namespaceSelector": {"matchLabels": dict(namespaces)} if namespaces else {}}
    if pods is not None:
        peer["podSelector"] = {"matchLabels": dict(pods)}
    return {"from": [peer], "ports": [_policy_port(port) for port in ports]}


def _policy_port(port: int | tuple[int, int]) -> Manifest:
    if isinstance(port, tuple):
        return {"port": port[0], "endPort": port[1], "protocol": "TCP"}
    return {"port": port, "protocol": "TCP"}


def claim_template(meta: Manifest, name: str, device_class: str, **exactly: Any) -> Manifest:
    """Return a ResourceClaimTemplate with one device request, which has this name."""
    request = {"name": name, "exactly": {"deviceClassName": device_class, **exactly}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": meta,
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def config_map(meta: Manifest, data: Mapping[str, str]) -> Manifest:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def workload(
    kind: str,
    meta: Manifest,
    labels: Mapping[str, str],
    pod: Manifest,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """Return a DaemonSet, Deployment or StatefulSet.

    `labels`: of its pods, and their selector. `annotations`: of its pods. `spec`: further fields.
    """
    pod_meta: Manifest = {"labels": dict(labels)}
    if annotations:
        pod_meta["annotations"] = dict(annotations)
    selector = {"matchLabels": dict(labels)}
    template = {"metadata": pod_meta, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": meta,
        "spec": {**spec, "selector": selector, "template": template},
    }


def network_policy(
    meta: Manifest, selector: Mapping[str, str], rules: Sequence[Manifest]
) -> Manifest:
    """Return a NetworkPolicy that admits only `rules` to the pods of `selector`."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta,
        "spec": {
            "podSelector": {"matchLabels": dict(selector)},
            "policyTypes": ["Ingress"],
            "ingress": list(rules),
        },
    }


def update_strategy(policy: str, max_unavailable: int | str) -> Manifest:
    """Return a DaemonSet's updateStrategy.

    `policy`: RollingUpdate, OnDelete, or Recreate, which updates all pods at once.
    """
    if policy == "OnDelete":
        return {"type": "OnDelete"}
    limit = "100%" if policy == "Recreate" else max_unavailable
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}}


def literal(text: str) -> str:
    """Return text escaped for a container's command or args.

    Kubernetes reads `$(NAME)` and `$$` there.
    """
    return text.replace("$", "$$")


def disruption_budget(meta: Manifest, selector: Mapping[str, str], **limit: int) -> Manifest:
    """Return a PodDisruptionBudget; `limit` is `minAvailable` or `maxUnavailable`.

    Pods that are not ready may always be evicted: they serve nothing, and would block node drains.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta,
        "spec": {
            **limit,
            "selector": {"matchLabels": dict(selector)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def claim(storage_class: str | None, size_gib: int, access_mode: str = "ReadWriteOnce") -> Manifest:
    """Return a PersistentVolumeClaim's spec; no class means the cluster's default."""
    spec: Manifest = {
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": f"{size_gib}Gi"}},
    }
    if storage_class:
        spec["storageClassName"] = storage_class
    return spec


def persistent_volume_claim(meta: Manifest, spec: Manifest) -> Manifest:
    """Return a PersistentVolumeClaim."""
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def claims_per_pod(
    name: str, labels: Mapping[str, str], spec: Manifest, when_scaled: str
) -> Manifest:
    """Return the fields of a StatefulSet whose pods each have a claim, deleted with the set.

    `when_scaled`: whether the claim of a pod that is scaled away is deleted (Delete or Retain).
    """
    return {
        "volumeClaimTemplates": [
            {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec}
        ],
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": "Delete",
            "whenScaled": when_scaled,
        },
    }


def env(values: Mapping[str, str]) -> list[Manifest]:
    """Return EnvVars of literal values, in order."""
    return [{"name": name, "value": value} for name, value in values.items()]


def env_field(name: str, path: str) -> Manifest:
    """Return an EnvVar that takes a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def env_secret(name: str, secret: str, key: str) -> Manifest:
    """Return an EnvVar that takes a key of a Secret.

    The pod does not start without that key.
    """
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def http_probe(path: str, port: str, *, period: int, failures: int, timeout: int = 5) -> Manifest:
    """Return an HTTP probe; periods and timeouts in seconds."""
    return {"httpGet": {"path": path, "port": port}, **_probe_timing(period, failures, timeout)}


def tcp_probe(port: str, *, period: int, failures: int, timeout: int = 5) -> Manifest:
    """Return a probe that connects to a port; periods and timeouts in seconds."""
    return {"tcpSocket": {"port": port}, **_probe_timing(period, failures, timeout)}


def exec_probe(command: Sequence[str], *, period: int, failures: int, timeout: int = 5) -> Manifest:
    """Return a probe that runs a command; periods and timeouts in seconds."""
    return {"exec": {"command": list(command)}, **_probe_timing(period, failures, timeout)}


def _probe_timing(period: int, failures: int, timeout: int) -> Manifest:
    return {"periodSeconds": period, "timeoutSeconds": timeout, "failureThreshold": failures}


def container_security() -> Manifest:
    """Return a container's securityContext that Pod Security level restricted admits.

    It has no capability, no privilege escalation and a read-only root; the user is the pod's.
    """
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def pod_security(uid: int) -> Manifest:
    """Return a pod's securityContext; user 0 is root (Pod Security level baseline)."""
    out: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}}
    if uid:
        out |= {"runAsNonRoot": True, "runAsUser": uid, "runAsGroup": uid, "fsGroup": uid}
        out["fsGroupChangePolicy"] = "OnRootMismatch"
    else:
        out |= {"runAsUser": 0}
    return out


def pod_defaults(uid: int) -> Manifest:
    """Return the fields of every pod of a tier.

    The pods have no API token and no Service environment.
    """
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(uid),
    }
