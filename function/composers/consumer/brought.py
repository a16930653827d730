"""Find what only this function writes in resources of earlier steps: records, and the pods' label.

A record that a team brings along is none, whatever its policy is. The label opens the tier's
NetworkPolicies to a pod; only wiring gives it.
"""

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from typing import Any

from function import names
from function.edge.request import Call
from function.kube import objects
from function.kube.access import Json
from function.pods.record import Record, wired_tiers
from function.problems import field_path
from function.workloads import kinds

Place = tuple[str | int, ...]

# Where a record could be read, now or in another form of the workload.
_METADATA = ("metadata", "annotations", names.ANNOTATION_RECORD)
_RECORDS = frozenset({_METADATA, (*objects.MANIFEST, *_METADATA)})


def places(document: Json) -> tuple[Place, ...]:
    """Return the paths of records and labels of ours in a desired resource.

    Labels are found in metadata, in values such as podLabels, and wherever a known kind may have
    them for its pods. Others, such as those of selectors and subsets, only select pods.
    """
    manifest = objects.unwrap(document) or {}
    is_known = kinds.is_known(manifest.get("apiVersion"), manifest.get("kind"))
    return tuple(_places(document, (), is_known))


def removed(
    call: Call, key: str, found: Collection[Place], document: Json, record: Record | None
) -> tuple[Json, tuple[str, ...]]:
    """Return what is desired under `key` without what was brought, and a note for each thing.

    `found`: by `places`, in the resource as it came; `document`: as it is desired now, with the
    `record` that we write. A label that runs already and that wiring did not give stays: taking it
    would roll the pods.
    """
    labels = wired_tiers(record.templates) if record else ()
    came, out, notes = call.desired(key), deepcopy(document), []
    wrote = str(call.observed_value(key, *_METADATA) or "")
    for place in found:
        value = _at(came, place)
        if place in _RECORDS:
            gone = record is None or place != _METADATA
        else:
            runs = call.observed_value(key, *place) == value and str(value) not in wrote
            gone = value not in labels and not runs
        if not gone:
            continue
        notes.append(
            f"{place[-1]} under {field_path(place[:-1])} was removed: only this function writes it."
        )
        parent = _at(out, place[:-1])
        if isinstance(parent, dict) and parent.get(place[-1]) == value:
            del parent[place[-1]]
    return (out if notes else document), tuple(notes)


def _places(node: Any, at: Place, is_known: bool) -> Iterator[Place]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            here = (*at, key)
            if here in _RECORDS or (key == names.LABEL_WIRED and _are_given(at, is_known)):
                yield here
            else:
                yield from _places(value, here, is_known)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _places(item, (*at, index), is_known)


def _are_given(at: Place, is_known: bool) -> bool:
    """Return whether the labels at a path may be given to pods. `is_known`: of a known kind."""
    steps = ["", "", *(str(step).lower() for step in at)]
    if any(step.endswith(("selector", "subsets")) for step in steps):
        return False
    is_of_metadata = steps[-1] == "labels" and (is_known or steps[-2].endswith("metadata"))
    return is_of_metadata or steps[-1].endswith("podlabels")


def _at(node: Any, place: Place) -> Any:
    for step in place:
        if isinstance(node, Mapping):
            node = node.get(step)
        elif isinstance(node, list) and isinstance(step, int) and step < len(node):
            node = node[step]
        else:
            return None
    return node
