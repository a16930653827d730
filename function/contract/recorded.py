"""An injection that comes from outside: its shape, and what a backend may put into a pod.

A record stands in an annotation that others may write. It is applied again only as far as it is
shaped like an injection, and holds nothing that its backend never injects: no capability, Secret or
directory of the node by another's word.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from posixpath import normpath
from types import GenericAlias
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from function.contract import events
from function.contract.injection import Injection
from function.names import LABEL_WIRED
from function.problems import field_path

# Digits of a text's digest in the name of its file (function.kube.naming.file_name).
_DIGEST = 8
_FOLDER = re.compile(r"[a-z]+(-[a-z0-9]+(\.[a-z0-9]+)*)+")  # of a payload
_NULL, _NONE = " or null", " or none"
_NAME = Annotated[str, Field(max_length=253)]
_PLAIN: Mapping[str, Any] = {
    "any": Any,
    "bool": bool,
    "name": _NAME,
    "text": Annotated[str, Field(max_length=16 * 1024)],
    "size": Annotated[int, Field(ge=0, lt=2**53)],
    "port": Annotated[int, Field(ge=1, le=65535)],
    "seconds": Annotated[int, Field(ge=1, le=3600)],
    "addresses": Annotated[list[_NAME], Field(max_length=32)],
}


@cache
def _shape(name: str = "Injection") -> type[BaseModel]:
    """Return the type of an object of recorded.yaml."""
    fields: dict[str, Any] = {
        key: (_type(text.removesuffix(_NONE)), None if text.endswith((_NULL, _NONE)) else ...)
        for key, text in _shapes()[name].items()
    }
    config = ConfigDict(strict=True, extra="forbid")
    return create_model(name, __config__=config, **fields)


@cache
def _shapes() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = yaml.safe_load(
        Path(__file__).with_suffix(".yaml").read_text()
    )
    return found


def _type(text: str) -> Any:
    if text.endswith(_NULL):
        return _type(text.removesuffix(_NULL)) | None
    if text.startswith("["):
        return GenericAlias(list, (_type(text[1:-1]),))
    if text.startswith("{"):
        return GenericAlias(dict, (_NAME, _type(text[1:-1])))
    return _PLAIN.get(text) or _shape(text)


def shaped(data: object) -> Injection:
    """Return the injection of a record. Raise ValueError for another shape or a newer record."""
    try:
        _shape().model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{field_path(first['loc']) or 'injection'}: {first['msg']}") from None
    assert isinstance(data, dict)
    return Injection.from_json(data)


@dataclass(frozen=True)
class Allowance:
    """What a backend may put into pods, by name; whatever is not here it never injects.

    Events (`spec.events`) are every backend's: `function.contract.events` says what they may be.
    `connectors`: values of `kv_connector`, and `modules` the beginnings of their module paths.
    `programs`: SHA-256 of every file that it has ever mounted but YAML and JSON, `search_paths` the
    variables by which they are found.
    `env`: names of variables, `secrets` those of them that may come from a Secret. `mounts`:
    directories below which it mounts. `claims`: kinds of its volumes. `capabilities`: by name.
    `host_shm`: whether pods may get the node's /dev/shm.
    `waits`: init containers that wait for something, by name.
    """

    connectors: frozenset[str] = frozenset()
    modules: tuple[str, ...] = ()
    programs: frozenset[str] = frozenset()
    search_paths: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    mounts: tuple[str, ...] = ()
    volumes: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()
    waits: frozenset[str] = frozenset()
    host_shm: bool = False

    def problem(self, injection: Injection, event_flags: Iterable[str] = (events.FLAG,)) -> str:
        """Return what a recorded injection holds that this backend never injects, else "".

        `event_flags`: flags with which engines publish KV events.
        """
        return next((what for what in self._foreign(injection, event_flags)), "")

    def _foreign(self, injection: Injection, event_flags: Iterable[str]) -> Iterable[str]:
        connector = injection.connector or {}
        if connector and connector.get("kv_connector") not in self.connectors:
            yield f"connector {connector.get('kv_connector')}"
        module = connector.get("kv_connector_module_path")
        if module is not None and not str(module).startswith(self.modules or ("\0",)):
            yield f"module {module}"
        for name, text in sorted(injection.files.items()):
            found = sha256(text.encode()).hexdigest()
            if name.endswith((".yaml", ".json")):
                # Pods name the file, and thereby its text.
                if found[:_DIGEST] not in name:
                    yield f"another text in {name}"
            elif found not in self.programs:
                yield f"program {name}"
            if not {"", ".."}.isdisjoint(name.split("/")):
                yield f"file {name}"
        yield from _beyond("search path", injection.search_paths, self.search_paths)
        yield from _beyond("flag", injection.flags, self.flags.union(event_flags))
        yield from _events(injection)
        for variable in (*injection.env, *injection.env_if_absent):
            secret = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if variable["name"] not in (self.secrets if secret else self.env | events.ENV):
                yield f"env {variable['name']}"
        yield from _beyond("label", injection.labels, {LABEL_WIRED})
        yield from _beyond("capability", injection.capabilities, self.capabilities)
        yield from _beyond("claim", (c["name"] for c in injection.claims), self.claims)
        ports = (port["name"] for port in injection.ports)
        yield from _beyond("port", ports, self.ports | events.PORTS)
        yield from _beyond("wait", (w["name"] for w in injection.waits), self.waits)
        names = injection.payload["names"] if injection.payload else ()
        yield from (f"payload {name}" for name in names if not _FOLDER.fullmatch(name))
        yield from self._volumes(injection)
        if injection.shm is not None and injection.shm.host and not self.host_shm:
            yield "the node's /dev/shm"
        yield from (f"resource {name}" for name in injection.resources if "/" not in name)

    def _volumes(self, injection: Injection) -> Iterable[str]:
        ours = {volume["name"] for volume in injection.volumes}
        for volume in injection.volumes:
            kinds = [kind for kind in volume if kind != "name"]
            if not volume["name"].startswith("kv-offload-"):
                yield f"volume {volume['name']}"
            yield from _beyond("volume of kind", kinds, self.volumes)
        for mount in injection.mounts:
            if mount["name"] not in ours:
                yield f"mount of {mount['name']}"
        places = [mount["mountPath"] for mount in injection.mounts]
        for path in injection.search_paths.values():
            # What an engine imports is a file of ours, and never what a volume holds.
            if not injection.files or path != injection.files_path:
                yield f"search path {path}"
            yield from (f"mount at {p}" for p in places if f"{normpath(p)}/".startswith(f"{path}/"))
        if injection.files:
            places.append(injection.files_path)
        for place in places:
            inside = (place == root or place.startswith(f"{root}/") for root in self.mounts)
            if ".." in place.split("/") or not any(inside):
                yield f"mount at {place}"


def _events(injection: Injection) -> Iterable[str]:
    """Of events, which any tier may ask for, what none does."""
    flag = injection.flags.get(events.FLAG, "{}")
    try:
        configs = [injection.kv_events or {}, json.loads(flag or "")]
    except (ValueError, RecursionError):
        yield f"{events.FLAG} {flag}"
        return
    yield from filter(None, map(events.problem, configs))


def _beyond(what: str, names: Iterable[str], allowed: Iterable[str]) -> Iterable[str]:
    return (f"{what} {name}" for name in sorted(names) if name not in frozenset(allowed))
