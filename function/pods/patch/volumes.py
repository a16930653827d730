"""Volumes and mounts: merged by name and by path; an equal one is kept, another is a conflict."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from function.kube.access import Json
from function.pods.patch.draft import Draft, conflict, items


def merge(draft: Draft, volumes: Sequence[Json], mounts: Sequence[Json]) -> None:
    """Add volumes to the pod and mounts to the serving container.

    A user's own mount of the same source at the same path is used instead of ours.
    """
    ours = {v["name"]: v for v in volumes}
    replaced: set[str] = set()
    adding: list[Json] = []
    for mount in mounts:
        found = mount_at(draft.container, mount["mountPath"])
        if found is None:
            adding.append(dict(mount))
            continue
        wanted = ours.get(mount["name"]) or volume(draft, mount["name"])
        if not _same_mount(found, mount) or not _same_source(volume(draft, found["name"]), wanted):
            raise conflict(
                f"{mount['mountPath']} is taken by the volume {found['name']!r}, and the tier "
                f"mounts {_describe(wanted)} there; mount yours elsewhere",
                draft.at(f"volumeMounts[{found['mountPath']}]"),
            )
        if found["name"] != mount["name"]:
            replaced.add(mount["name"])
    used = {m["name"] for m in adding}
    for name, wanted in ours.items():
        if name in replaced and name not in used:
            continue
        found_volume = volume(draft, name)
        if found_volume is None:
            items(draft.spec, "volumes").append(dict(wanted))
        elif not _same_source(found_volume, wanted):
            raise conflict(
                f"the name is taken by another volume than the tier's ({_describe(wanted)}); "
                "rename yours",
                f"spec.volumes[{name}]",
            )
    if adding:
        items(draft.container, "volumeMounts").extend(adding)


def volume(draft: Draft, name: str) -> Json | None:
    """Return the pod's volume of that name."""
    return next((v for v in draft.spec.get("volumes") or () if v.get("name") == name), None)


def mount_at(container: Json, path: str) -> Json | None:
    """Return the container's mount at exactly that path."""
    normal = posixpath.normpath(path)
    mounts: list[Json] = container.get("volumeMounts") or []
    for mount in mounts:
        if posixpath.normpath(mount.get("mountPath", "")) == normal:
            return mount
    return None


def source(v: Mapping[str, Any]) -> Json:
    """Return a volume without its name; API defaults are filled in, for comparing."""
    out = {k: value for k, value in v.items() if k != "name" and value is not None}
    if not out:
        return {"emptyDir": {}}
    for kind, defaults in _DEFAULTS.items():
        if kind in out:
            out[kind] = {**defaults, **(out[kind] or {})}
    return out


# core/v1 defaults that the API server writes back.
_DEFAULTS: dict[str, Json] = {
    "configMap": {"defaultMode": 420},
    "secret": {"defaultMode": 420},
    "projected": {"defaultMode": 420},
    "downwardAPI": {"defaultMode": 420},
    "hostPath": {"type": ""},
}


def _same_source(have: Json | None, wanted: Json | None) -> bool:
    return have is not None and wanted is not None and source(have) == source(wanted)


def _same_mount(have: Json, wanted: Json) -> bool:
    keys = ("readOnly", "subPath", "subPathExpr", "mountPropagation")
    return all((have.get(k) or None) == (wanted.get(k) or None) for k in keys)


def _describe(v: Json | None) -> str:
    if v is None:
        return "a volume of its own"
    kind, value = next(iter(source(v).items()))
    place = next((value[k] for k in ("claimName", "path", "name", "secretName") if k in value), "")
    return f"{kind} {place}".strip()
