"""What stands at a path of a container, as far as its volumes say."""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from function.command import inlined
from function.command.kubernetes import escape
from function.kube import access
from function.kube.access import Json
from function.pods.siblings import Texts


def as_started(template: Mapping[str, Any], container: Json, texts: Texts) -> Json:
    """Return the container with what ConfigMaps that can be seen bring: variables, a start script.

    `envFrom` keeps the other sources. Later ones win, and `env` wins over all, as in Kubernetes:
    what stands before a source that cannot be seen is a name without a value.
    """
    sources = access.objects(container, "envFrom")
    texts_of = [texts.get(access.text(each, "configMapRef", "name")) for each in sources]
    hidden = [each for each, seen in zip(sources, texts_of, strict=True) if seen is None]
    brought: list[Json] = []
    for at, (source, seen) in enumerate(zip(sources, texts_of, strict=True)):
        prefix, may_change = access.text(source, "prefix"), None in texts_of[at:]
        for key, value in (seen or {}).items():
            reference = {"configMapKeyRef": {**source["configMapRef"], "key": key}}
            known = {"valueFrom": reference} if may_change else {"value": escape(value)}
            brought.append({"name": prefix + key, **known})
    written = access.objects(container, "env")
    env = brought + [_literal(entry, texts) for entry in written]
    if env != written:
        container = {**container, "env": env, "envFrom": hidden}
    argv = inlined(container, lambda path: text(template, container, path, texts))
    return {**container, "command": argv, "args": []} if argv else container


def why_unread(template: Mapping[str, Any], container: Json, texts: Texts) -> str:
    """Return why the container's start script cannot be read, "" where that is not the reason."""
    reasons: list[str] = []

    def text_at(path: str) -> str:
        try:
            return text(template, container, path, texts)
        except ValueError as hidden:
            reasons.append(str(hidden))
            raise

    inlined(container, text_at)
    return "".join(reasons[:1])


def _literal(entry: Json, texts: Texts) -> Json:
    name, key = (access.text(entry, "valueFrom", "configMapKeyRef", k) for k in ("name", "key"))
    value = (texts.get(name) or {}).get(key)
    return entry if value is None else {"name": entry["name"], "value": escape(value)}


def mount_above(container: Mapping[str, Any], path: str) -> Json | None:
    """Return the mount that `path` lies in: the longest mountPath above it."""
    normal = posixpath.normpath(path)
    above = [
        m
        for m in container.get("volumeMounts") or ()
        if normal == (mounted := posixpath.normpath(m["mountPath"]))
        or normal.startswith(mounted.rstrip("/") + "/")
    ]
    return max(above, key=lambda m: len(m["mountPath"]), default=None)


def inside(mount: Mapping[str, Any], path: str) -> str:
    """Return the path in the volume of what the mount shows at `path`."""
    below = posixpath.relpath(posixpath.normpath(path), posixpath.normpath(mount["mountPath"]))
    return posixpath.normpath(posixpath.join(mount.get("subPath") or "", below))


def text(template: Mapping[str, Any], container: Mapping[str, Any], path: str, texts: Texts) -> str:
    """Return the text of a file that a ConfigMap brings. Raise ValueError if unreadable.

    `texts`: of the ConfigMaps that can be seen. Such volumes are read-only: nothing in the pod can
    change what is there.
    """
    if not posixpath.isabs(path):
        path = posixpath.join(container.get("workingDir") or "", path)
    mount = mount_above(container, path) if posixpath.isabs(path) else None
    if mount is None or mount.get("subPathExpr"):
        raise ValueError("no volume that can be seen is mounted there")
    volume = next(
        (v for v in access.objects(template, "spec", "volumes") if v["name"] == mount["name"]), {}
    )
    found = [
        (name, key)
        for name, items in _sources(volume)
        for key in _keys(items, inside(mount, path), (texts.get(name) or {}))
    ]
    return _one(found, [name for name, _ in _sources(volume)], texts)


def _one(found: list[tuple[str, str]], names: list[str], texts: Texts) -> str:
    for name in names:
        if name not in texts:
            raise ValueError(
                f"ConfigMap {name!r} holds it and is not given with the pods: add it to them"
            )
        if texts[name] is None:
            raise ValueError(f"two ConfigMaps given with the pods are called {name!r}, and differ")
    if len(found) != 1:
        raise ValueError(f"ConfigMap {', '.join(names)!r} has no such text")
    name, key = found[0]
    return (texts[name] or {})[key]


def _sources(volume: Mapping[str, Any]) -> Iterator[tuple[str, list[Json]]]:
    """Yield the ConfigMaps of a volume with their `items`. Raise ValueError for another kind."""
    given = volume.get("configMap")
    sources = [volume] if given is not None else access.objects(volume, "projected", "sources")
    for source in sources:
        if not isinstance(source.get("configMap"), dict):
            kind = next(iter(source), "no source")
            raise ValueError(f"the projected volume holds more than ConfigMaps ({kind})")
        yield (
            access.text(source, "configMap", "name"),
            access.objects(source, "configMap", "items"),
        )
    if not sources:
        kind = next((k for k in volume if k != "name"), "a volume that the pod does not define")
        raise ValueError(f"it is in a volume ({kind}) whose files cannot be seen")


def _keys(items: list[Json], path: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys that the volume shows at `path`, as far as they hold texts."""
    if not items:
        yield from [path] if path in texts else []
    for item in items:
        key = access.text(item, "key")
        if posixpath.normpath(access.text(item, "path")) == path and key in texts:
            yield key
