"""The files that a consumer's pods mount: one ConfigMap per consumer, beside its pods."""

from collections.abc import Iterable
from typing import Any

from function.kube import naming, objects
from function.pods.asking import Target
from function.pods.record import Record

KEY = "configmap-kv-offload"


def name(composite: dict[str, Any]) -> str:
    """The ConfigMap's name on the workload cluster: the consumer's name is in it."""
    metadata = composite.get("metadata", {})
    kind, namespace = composite.get("kind", ""), metadata.get("namespace", "")
    consumer = metadata.get("name", "")
    return naming.label(consumer, "kv-offload", unique=(kind, namespace, consumer), limit=63)


def compose(
    composite: dict[str, Any], wired: Iterable[tuple[Target, Record]]
) -> dict[str, dict[str, Any]]:
    """The ConfigMap (by resource key) with the files of all records, {} when none has any.

    File names carry the digest of their text, so that engines with other settings do not collide
    and a pod never finds another text than the one it was started with.
    """
    data: dict[str, str] = {}
    home: Target | None = None
    for target, record in wired:
        for template in record.templates.values():
            data |= template.injection.files
            home = home or (target if template.injection.files else None)
    if home is None:
        return {}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name(composite), "namespace": home.remote_namespace},
        "data": dict(sorted(data.items())),
    }
    return {KEY: objects.wrapped_like(home.resource, manifest)}
