"""Compose what a consumer's pods mount: the files of their records."""

from collections.abc import Iterable

from function.edge.request import Call
from function.kube import access, naming, objects
from function.kube.access import Json
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record

KEY = "configmap-kv-offload"

_CLUSTER = ("spec", "providerConfigRef", "name")


def name(composite: Json) -> str:
    """Return the ConfigMap's name on the workload cluster; it holds the consumer's name."""
    kind, namespace, consumer = access.named(composite)
    return naming.label(consumer, "kv-offload", unique=(kind, namespace, consumer), limit=63)


def compose(
    call: Call, config_map_name: str, wired: Iterable[tuple[OffloadRequest, Record]]
) -> dict[str, Json]:
    """Compose the ConfigMap that the pods of these workloads mount, by its resource key."""
    composed = config_map(config_map_name, wired)
    return {_key(call, composed): composed} if composed else {}


def config_map(config_map_name: str, wired: Iterable[tuple[OffloadRequest, Record]]) -> Json:
    """Return the ConfigMap with the files of all records, on the first one's cluster; {} without.

    File names carry the digest of their text, so that engines with other settings do not collide
    and a pod never finds another text than the one it was started with.
    """
    data: dict[str, str] = {}
    home: OffloadRequest | None = None
    for request, record in wired:
        for template in record.templates.values():
            files = template.injection.files
            data |= {naming.config_key(path): text for path, text in files.items()}
            home = home or (request if files else None)
    if home is None:
        return {}
    metadata = {"name": config_map_name, "namespace": home.remote_namespace}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return objects.wrap_like(home.resource, {**made, "data": dict(sorted(data.items()))})


def _key(call: Call, composed: Json) -> str:
    """Return the resource key; another one once the consumer changed its cluster.

    The provider follows no Object to another cluster: what it had made would stay on the old one.
    """
    cluster = access.text(composed, *_CLUSTER)
    moved = f"{KEY}-{cluster}"
    for known in (KEY, moved):
        if call.observed_value(known, *_CLUSTER) == cluster:
            return known
    return moved if cluster and call.is_observed(KEY) else KEY
