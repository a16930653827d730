"""What stands beside a consumer's pods: the files they mount, and what else they refer to."""

from collections.abc import Iterable
from typing import Any

from function.edge.request import Call
from function.kube import access, naming, objects
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record

KEY = "configmap-kv-offload"

_CLUSTER = ("spec", "providerConfigRef", "name")


def name(composite: dict[str, Any]) -> str:
    """The ConfigMap's name on the workload cluster: the consumer's name is in it."""
    metadata = composite.get("metadata", {})
    kind, namespace = composite.get("kind", ""), metadata.get("namespace", "")
    consumer = metadata.get("name", "")
    return naming.label(consumer, "kv-offload", unique=(kind, namespace, consumer), limit=63)


def compose(
    call: Call, wired: Iterable[tuple[OffloadRequest, Record]]
) -> dict[str, dict[str, Any]]:
    """Whatever the pods of these workloads mount or reference, by resource key.

    One ConfigMap holds the files of all records. File names carry the digest of their text, so that
    engines with other settings do not collide and a pod never finds another text than the one it
    was started with. Other companions are composed as the backend wrote them.
    """
    data: dict[str, str] = {}
    out: dict[str, dict[str, Any]] = {}
    home: OffloadRequest | None = None
    for request, record in wired:
        for template in record.templates.values():
            files = template.injection.files
            data |= {naming.config_key(path): text for path, text in files.items()}
            home = home or (request if files else None)
            for key, manifest in sorted(template.injection.companions.items()):
                beside = _beside(request, manifest)
                out[_key(call, f"kv-offload-{key}", beside)] = beside
    if home is not None:
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name(call.composite)},
            "data": dict(sorted(data.items())),
        }
        beside = _beside(home, manifest)
        out[_key(call, KEY, beside)] = beside
    return out


def _key(call: Call, key: str, beside: dict[str, Any]) -> str:
    """The resource key of an Object: another one once the consumer has moved to another cluster.

    The provider follows no Object to another cluster: what it had made would stay on the old one.
    """
    cluster = access.text(beside, *_CLUSTER)
    moved = f"{key}-{cluster}"
    for known in (key, moved):
        if call.observed_value(known, *_CLUSTER) == cluster:
            return known
    return moved if cluster and call.is_observed(key) else key


def _beside(request: OffloadRequest, manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest in the namespace of a workload's pods, on their cluster."""
    metadata = {**manifest["metadata"], "namespace": request.remote_namespace}
    return objects.wrap_like(request.resource, {**manifest, "metadata": metadata})
