"""Compose what a consumer's pods mount: the files of their records."""

import json
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from function import names
from function.edge.request import Call
from function.kube import access, naming, objects
from function.kube.access import Json
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record
from function.workloads.rolled import COUNTED

KEY = "configmap-kv-offload"

# Of the files that no record has any more, in characters: etcd stores 1.5 MiB of an Object.
_MOST_KEPT = 256 * 1024


class Place(NamedTuple):
    """Where pods find a ConfigMap. `own`: the namespace of a namespaced ProviderConfig."""

    own: str
    cluster: str
    namespace: str


def name(composite: Json) -> str:
    """Return the ConfigMap's name on the workload cluster; it holds the consumer's name."""
    kind, namespace, consumer = access.named(composite)
    return naming.label(consumer, "kv-offload", unique=(kind, namespace, consumer), limit=63)


def place(namespace: str, resource: Json, cluster: str, remote: str) -> Place:
    """Return where the pods of `resource` look, which a consumer in `namespace` composes.

    `cluster`: what an Object's ProviderConfig is called, "" for what is no Object. `remote`: their
    namespace there. Core puts all else into the namespace of a namespaced composite.
    """
    if not cluster:
        return Place("", "", namespace or remote)
    own = namespace or access.text(resource, "metadata", "namespace")
    return Place(own if "/" in cluster else "", cluster, remote)


def compose(
    call: Call,
    namespace: str,
    config_map_name: str,
    wired: Iterable[tuple[OffloadRequest, Record]],
    is_left: Callable[[], bool],
    left_by: Callable[[Collection[str] | None], Collection[str]],
) -> dict[Place, tuple[str, Json]]:
    """Compose the ConfigMaps that the pods of these workloads mount: resource key and manifest.

    `namespace`: the consumer's. Pods of an earlier wiring need its files to start again: they stay
    until it is left. `left_by`: who has left it and may still run with it, of those that the
    ConfigMap names; None where it names nobody.
    """
    made = config_maps(namespace, config_map_name, wired)
    # An earlier step may have a key that begins like ours; of our own, a name like ours.
    others = {
        key
        for key in call.desired_keys()
        if key.startswith(KEY)
        and access.named(objects.unwrap(call.desired(key)))[2] != config_map_name
    }
    keys: dict[Place, str] = {}
    for key in call.observed_keys():
        if key.startswith(KEY) and key not in others:
            seen = call.observed(key) or {}
            manifest = objects.unwrap(seen) or {}
            _, remote, own_name = access.named(manifest)
            where = place(namespace, seen, objects.provider_config(seen), remote)
            keys[where] = key
            now = made.get(where, {})
            data = access.texts(objects.unwrap(now), "data")
            kept = _kept(access.texts(manifest, "data"), data)
            wired_here = _users(now) or set()
            users = {*wired_here, *left_by(_users(seen))}
            if kept and not users and is_left():
                kept = {}
            if kept or (where in made and (users != wired_here or not namespace)):
                # Core moves nothing to another namespace.
                own = {} if namespace else access.mapping(seen, "metadata")
                like = {**seen, "metadata": own}
                made[where] = _config_map(like, own_name, remote, data | kept, users)
    for where in made:
        if where not in keys:
            keys[where] = _new_key(where, {*keys.values(), *others})
    return {where: (keys[where], document) for where, document in made.items()}


def config_maps(
    namespace: str, config_map_name: str, wired: Iterable[tuple[OffloadRequest, Record]]
) -> dict[Place, Json]:
    """Return the ConfigMaps with the files of all records, by the place where pods mount them.

    File names carry the digest of their text, so that engines with other settings do not collide
    and a pod never finds another text than the one it was started with. Workloads whose kind counts
    no pods are named: once one has left, its record may be gone before this is written again.
    """
    found: dict[Place, tuple[Json, str, dict[str, str], list[str]]] = {}
    for request, record in wired:
        files = {
            naming.config_key(path): text
            for template in record.templates.values()
            for path, text in template.injection.files.items()
        }
        if files:
            cluster = "" if request.is_bare else request.provider_config
            remote = request.remote_namespace
            where = place(namespace, request.resource, cluster, remote)
            _, _, data, users = found.setdefault(where, (request.resource, remote, {}, []))
            data.update(files)
            users += [] if str(request.manifest.get("kind")) in COUNTED else [request.key]
    return {
        where: _config_map(resource, config_map_name, remote, data, users)
        for where, (resource, remote, data, users) in found.items()
    }


def _config_map(
    resource: Json,
    own_name: str,
    namespace: str,
    data: dict[str, str],
    users: Collection[str],
) -> Json:
    """Return a ConfigMap in the form in which `resource` is composed."""
    made = {"apiVersion": "v1", "kind": "ConfigMap"}
    metadata = {"name": own_name, "namespace": namespace}
    found = objects.wrap_like(
        resource, {**made, "metadata": metadata, "data": dict(sorted(data.items()))}
    )
    if users:
        marks = {names.ANNOTATION_MOUNTED_BY: json.dumps(sorted(users))}
        found["metadata"]["annotations"] = found["metadata"].get("annotations", {}) | marks
    return found


def _users(resource: Json) -> set[str] | None:
    """Return whom a ConfigMap, or its Object, names; None where it names nobody."""
    text = access.texts(resource, "metadata", "annotations").get(names.ANNOTATION_MOUNTED_BY)
    try:
        return None if text is None else set(map(str, json.loads(text)))
    except (ValueError, TypeError, RecursionError):
        return set()


def _kept(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """Return the files that are there and in no record any more, as far as there is room."""
    found, room = {}, _MOST_KEPT
    for key in sorted(before.keys() - now.keys()):
        room -= len(before[key])
        if room >= 0:
            found[key] = before[key]
    return found


def _new_key(where: Place, taken: Collection[str]) -> str:
    """Return the resource key of a ConfigMap in a new place.

    The provider follows no Object to another cluster: what it had made would stay on the old one.
    """
    moved = f"{KEY}-{where.cluster}" if where.cluster and "/" not in where.cluster else KEY
    free = [key for key in (KEY, moved) if key not in taken]
    return free[0] if free else f"{KEY}-{naming.digest(*where)}"
