"""Compose what a consumer's pods mount or refer to: their files and other objects."""

from collections.abc import Iterable
from typing import Any

from function.edge.request import Call
from function.kube import access, naming, objects
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record

KEY = "configmap-kv-offload"

_CLUSTER = ("spec", "providerConfigRef", "name")


def name(composite: dict[str, Any]) -> str:
    """Return the ConfigMap's name on the workload cluster; it holds the consumer's name."""
    metadata = composite.get("metadata", {})
    kind, namespace = composite.get("kind", ""), metadata.get("namespace", "")
    consumer = metadata.get("name", "")
    return naming.label(consumer, "kv-offload", unique=(kind, namespace, consumer), limit=63)


def compose(
    call: Call, wired: Iterable[tuple[OffloadRequest, Record]]
) -> dict[str, dict[str, Any]]:
    """Compose what the pods of these workloads mount or reference, by resource key.

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
                companion = _wrap(request, manifest)
                out[_key(call, f"kv-offload-{key}", companion)] = companion
    if home is not None:
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name(call.composite)},
            "data": dict(sorted(data.items())),
        }
        companion = _wrap(home, manifest)
        out[_key(call, KEY, companion)] = companion
    return out


def _key(call: Call, key: str, companion: dict[str, Any]) -> str:
    """Return the resource key of an Object; another one once the consumer changed its cluster.

    The provider follows no Object to another cluster: what it had made would stay on the old one.
    """
    cluster = access.text(companion, *_CLUSTER)
    moved = f"{key}-{cluster}"
    for known in (key, moved):
        if call.observed_value(known, *_CLUSTER) == cluster:
            return known
    return moved if cluster and call.is_observed(key) else key


def _wrap(request: OffloadRequest, manifest: dict[str, Any]) -> dict[str, Any]:
    """Wrap a manifest for the namespace of a workload's pods, on their cluster."""
    metadata = {**manifest["metadata"], "namespace": request.remote_namespace}
    return objects.wrap_like(request.resource, {**manifest, "metadata": metadata})
