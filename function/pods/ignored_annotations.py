"""Requests that nobody reads: a misspelled key, or one in a place where it does nothing.

Every key of ours is looked for in a whole document; only those of known pod templates count.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from function import names
from function.problems import field_path

Place = tuple[str | int, ...]

# How a key begins that means one of ours, however it goes on; with another group or none only as
# an annotation of ours is written.
_LIKE = (f"{names.GROUP}/kv-", f"{names.GROUP}/kvoffload", f"{names.GROUP}/kv_offload")
_BARE = tuple(key.partition("/")[2] for key in names.USER_ANNOTATIONS)
# How deep a request may stand in a document that nobody knows.
_MAX_DEPTH = 40
_LONGEST_KIND = 63
# Comparing spellings costs 0.2 ms a key: a stranger may write thousands.
_MOST_COMPARED, _LONGEST_COMPARED = 16, 128
# A condition has no room for more.
_MOST_IGNORED = 64
_MOST_PATHS = 4
_NO_STRING = "its value is not a string; write it in quotes, on the pod template."


@dataclass(frozen=True)
class IgnoredAnnotation:
    """A key below `path` that does nothing, and what to do instead."""

    path: str
    key: str
    advice: str

    def __str__(self) -> str:
        return f"{self.key} under {self.path or 'the document'} does nothing: {self.advice}"


def ignored_annotations(
    document: Mapping[str, Any], read: Collection[tuple[str, str]], instead: str = ""
) -> tuple[IgnoredAnnotation, ...]:
    """Return the keys of a document that nothing reads, in their order.

    `read`: (key, value) of every annotation of a pod template in it. `instead`: what to do, "" for
    a kind that is not known here.
    """
    found: list[IgnoredAnnotation] = []
    compared = 0
    for place, key, value in _keys(document, ()):
        if len(found) == _MOST_IGNORED:
            break
        if key in names.USER_ANNOTATIONS and isinstance(value, str) and (key, value) in read:
            continue
        is_tier = document.get("kind") == "KVOffloadTier" and place == ("metadata", "labels")
        if is_tier and key == names.LABEL_AUTO:
            continue
        row = "" if instead else _path_row(document, place)
        misspelled = key not in names.USER_ANNOTATIONS
        compared += misspelled
        advice = _spelling(key, compared) if misspelled else _advice(instead, row)
        if not misspelled and instead and not isinstance(value, str):
            advice = _NO_STRING
        found.append(IgnoredAnnotation(field_path(place), key, advice))
    return tuple(found)


def _path_row(document: Mapping[str, Any], place: Place) -> str:
    """Return the row of `paths` that names the pod template of these annotations, "" for none."""
    node: Any = document
    for step in place[:-2]:
        node = node[step]
    spec = node.get("spec") if isinstance(node, Mapping) and len(place) > 2 else None
    kind = document.get("kind")
    is_pod = isinstance(spec, Mapping) and isinstance(spec.get("containers"), list)
    if not is_pod or not isinstance(kind, str) or place[-2:] != ("metadata", "annotations"):
        return ""
    path = re.sub(r"\[\d+\]", "[*]", field_path(place[:-2]))
    quote = '"' if "[" in path else ""  # a star begins an alias in YAML
    return f"{{kind: {kind[:_LONGEST_KIND]}, path: {quote}{path}{quote}}}"


def on_pod_templates(paths: Sequence[str] = ()) -> str:
    """Return where an annotation must stand. `paths`: of the annotations of pod templates."""
    if not paths:
        return "write it on the pod template, under metadata.annotations."
    shown = [*paths[:_MOST_PATHS], *(["..."] if len(paths) > _MOST_PATHS else [])]
    return f"write it on the pod template, under {' or '.join(shown)}."


def _spelling(key: str, number: int) -> str:
    """Return the key that was meant; `number`: of this one among those that are misspelled."""
    known_are = f"known are {', '.join(names.USER_ANNOTATIONS)}."
    if number > _MOST_COMPARED or len(key) > _LONGEST_COMPARED:
        return known_are
    like = key.lower().replace("_", "-")
    meant = difflib.get_close_matches(like, names.USER_ANNOTATIONS, n=1)
    return f"did you mean {meant[0]}?" if meant else known_are


def _advice(instead: str, row: str) -> str:
    if instead:
        return instead
    if row:
        return f"no kind like this is known; add to the step's input: paths: [{row}]"
    return (
        "no kind like this is known; where it holds pod templates, name them under `paths` of the "
        "step's input. One whose controller alone knows its pods, as KubeAI's Model, cannot be "
        "wired."
    )


def _keys(node: Any, at: Place) -> Iterator[tuple[Place, str, Any]]:
    if len(at) > _MAX_DEPTH:
        return
    if isinstance(node, Mapping):
        for key, value in node.items():
            if not isinstance(key, str):
                continue
            lowered = key.lower()
            if not lowered.startswith(_LIKE) and lowered.rpartition("/")[2] not in _BARE:
                yield from _keys(value, (*at, key))
            elif key not in names.OWNED_KEYS:
                yield at, key, value
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _keys(item, (*at, index))
