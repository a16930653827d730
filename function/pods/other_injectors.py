"""Pods that asked another controller for a KV cache of its own: they are not wired twice.

Two injectors on one pod fight: GPUStack's webhook refuses a pod that already has
`--kv-transfer-config`, LMCache's appends a second one, which replaces the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from function.facts import Table
from function.kube import access
from function.problems import Refused
from function.reasons import Reason


@dataclass(frozen=True)
class Injector:
    """Another controller that configures a cache, and how a pod template opts in.

    `key`: a label or annotation (`place`). `values`: those that opt in, () for any that is not
    empty. `asked`: what it asks for, after "asks".
    """

    owner: str
    place: str
    key: str
    asked: str
    source: str
    values: tuple[str, ...] = ()


INJECTORS = Table(Injector, "neighbours", "injectors")


@dataclass(frozen=True)
class Field:
    """A field of a workload that has its controller configure a cache: `path` under the object."""

    owner: str
    kind: str
    group: str
    path: tuple[str, ...]
    source: str


FIELDS = Table(Field, "neighbours", "fields")


def of_template(template: Mapping[str, Any]) -> Injector | None:
    """Return the injector that a pod template opted in to, or None."""
    metadata = template.get("metadata")
    for row in INJECTORS.rows:
        entries = metadata.get(row.place) if isinstance(metadata, Mapping) else None
        value = entries.get(row.key) if isinstance(entries, Mapping) else None
        text = "" if value is None else str(value)
        if (text.lower() in row.values) if row.values else text:
            return row
    return None


def of_object(manifest: Mapping[str, Any]) -> Field | None:
    """Return the field that makes a workload's own controller configure a cache, or None."""
    group = str(manifest.get("apiVersion") or "").partition("/")[0]
    for row in FIELDS.rows:
        if (manifest.get("kind"), group) != (row.kind, row.group):
            continue
        if access.at(manifest, *row.path):
            return row
    return None


def check(template: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Raise Refused(OutOfScope) where somebody else configures this pod's cache."""
    row = of_template(template)
    if row is not None:
        raise Refused(
            Reason.OUT_OF_SCOPE,
            f"this pod also asks {row.owner} {row.asked} ({row.key}), and two of them would "
            f"overwrite each other; remove that {row.place[:-1]}, or modelplane.ai/kv-offload-tier",
            f"metadata.{row.place}[{row.key}]",
        )
    field = of_object(manifest)
    if field is not None:
        path = ".".join(field.path)
        raise Refused(
            Reason.OUT_OF_SCOPE,
            f"{field.owner} configures offloading of this workload itself ({path}), and two would "
            f"overwrite each other; remove {path}, or modelplane.ai/kv-offload-tier",
            path,
        )
