"""What makes one stream of documents into another: exact, and short enough to be read.

`between(before, after)` is a list of changes, one for each document that differs; a document is
known by its kind and the resource's name in the pipeline, else by its own, a result by its message:

    removed: Object service-agent                # it is gone
    ---
    added: Object daemonset-agent                # it is new, after that one; without one, first
    after: KVOffloadTier modelplane-system/chat
    document: {...}
    ---
    changed: KVOffloadTier modelplane-system/chat
    gone: [status.conditions[type=Ready].message]
    lists:                                       # items came or went
      spec.crossplane.resourceRefs:
      - {after: [chat-06b06], gone: [chat-1c3e7], new: [{...}]}
    set:                                         # a value is new, or another
      status.agents.ready: 3
      status.conditions[type=Ready].status: 'True'

Items of a list are known by the field that tells them apart (`type=Ready`), in a list of objects
that has such a field; other items are their whole value. `after` is as many of the items before as
tell the place apart, and the flag of a value; often that is none. Nothing is counted, so that a
change early in a document leaves all changes behind it as they are. JSON inside a text, as in a
record, is seen into (`metadata.annotations.record(json).template`).

`apply(before, between(before, after))` is `after`, always.
"""

import contextlib
import copy
import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kv_offload.render import emit

Document = dict[str, Any]
Step = str | int | tuple[str, str]  # a key, an index, or an item's field and its value
Path = tuple[Step, ...]

JSON = "(json)"
_RESOURCE = "crossplane.io/composition-resource-name"
_FIELDS = ("mountPath", "name", "type", "key")
_PLAIN = re.compile(r"[A-Za-z_$][-\w$]*")
_TEXT = r'"(?:[^"\\]|\\.)*"'
_BARE = re.compile(r'[^\]"]+')
_STEP = re.compile(
    rf"\.?({_PLAIN.pattern}|\(json\))|\[(\d+)\]|\[({_TEXT})\]|\[(\w+)=({_TEXT}|{_BARE.pattern})\]"
)


class ChangesError(ValueError):
    """Changes that do not fit what they are applied to."""


@dataclass
class _Edits:
    """What differs in one document."""

    set: dict[str, Any] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    lists: dict[str, list[Document]] = field(default_factory=dict)


def between(before: Sequence[Document], after: Sequence[Document]) -> list[Document]:
    """The changes, in the order of `after`; what is gone comes first."""
    old, new = _named(map(_opened, before)), _named(map(_opened, after))
    names = list(old)
    equal = [(start, end) for tag, start, end, _, _ in _opcodes(names, list(new)) if tag == "equal"]
    kept = {name for start, end in equal for name in names[start:end]}
    changes: list[Document] = [{"removed": name} for name in names if name not in kept]
    previous = None
    for name, document in new.items():
        if name not in kept:
            place = {"after": previous} if previous is not None else {}
            changes.append({"added": name, **place, "document": document})
        elif not _same(old[name], document):
            changes.append({"changed": name, **_edits(old[name], document)})
        previous = name
    return changes


def apply(before: Sequence[Document], changes: Sequence[Document]) -> list[Document]:
    """The documents that `before` becomes; raises ChangesError where the changes do not fit."""
    documents = _named(map(_opened, before))
    order = list(documents)
    for change in changes:
        match change:
            case {"removed": name, **rest} if not rest:
                order.remove(_known(name, order))
                del documents[name]
            case {"added": name, "document": document, **rest} if not set(rest) - {"after"}:
                place = order.index(_known(rest["after"], order)) + 1 if rest else 0
                order.insert(place, name)
                documents[name] = document
            case {"changed": name, **parts} if not set(parts) - {"set", "gone", "lists"}:
                documents[_known(name, order)] = _edited(documents[name], parts)
            case _:
                raise ChangesError(f"not a change: {change}")
    return [_closed(documents[name]) for name in order]


def edits(before: Document, after: Document) -> Document:
    """What makes one document into another: `set`, `gone` and `lists`, {} for nothing."""
    return _edits(_opened(before), _opened(after))


def edited(document: Document, *parts: Document) -> Document:
    """The inverse of `edits`; no parts for nothing."""
    out = _opened(document)
    for part in parts:
        out = _edited(out, part)
    return _closed(out)


def _opened(value: Any) -> Any:
    """Every text that is an object in canonical JSON as what it says, below the key JSON."""
    match value:
        case dict() if JSON in value:
            raise ChangesError(f"a key {JSON!r} would be taken for text")
        case dict():
            return {key: _opened(item) for key, item in value.items()}
        case list():
            return [_opened(item) for item in value]
        case str() if value.startswith("{"):
            with contextlib.suppress(json.JSONDecodeError):
                said = emit.plain(json.loads(value))
                if isinstance(said, dict) and _canonical(said) == value:
                    return {JSON: said}
    return value


def _closed(value: Any) -> Any:
    """The inverse of `_opened`."""
    match value:
        case {"(json)": said}:
            return _canonical(said)
        case dict():
            return {key: _closed(item) for key, item in value.items()}
        case list():
            return [_closed(item) for item in value]
    return value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _known(name: str, order: list[str]) -> str:
    if name not in order:
        raise ChangesError(f"there is no document {name!r}")
    return name


def _named(documents: Iterable[Document]) -> dict[str, Document]:
    """Documents by the label that changes use; doubles are counted."""
    named: dict[str, Document] = {}
    for document in documents:
        label = _label(document)
        number = 1
        unique = label
        while unique in named:
            number += 1
            unique = f"{label} #{number}"
        named[unique] = document
    return named


def _label(document: Document) -> str:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    annotations = metadata.get("annotations")
    resource = annotations.get(_RESOURCE) if isinstance(annotations, dict) else None
    places = [metadata.get("namespace"), metadata.get("name")]
    name = resource or "/".join(p for p in places if isinstance(p, str)) or document.get("message")
    return f"{document.get('kind')} {name or ''}".rstrip()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are three values."""
    return _text(one) == _text(other)


def _opcodes(before: list[str], after: list[str]) -> list[tuple[str, int, int, int, int]]:
    return difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()


def _edits(before: Document, after: Document) -> Document:
    found = _Edits()
    _compare(before, after, (), found)
    return {part: value for part, value in vars(found).items() if value}


def _compare(before: Any, after: Any, path: Path, edits: _Edits) -> None:
    if _same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        edits.gone += [show((*path, key)) for key in sorted(before) if key not in after]
        for key in sorted(after):
            if key in before:
                _compare(before[key], after[key], (*path, key), edits)
            else:
                edits.set[show((*path, key))] = after[key]
    elif before and after and isinstance(before, list) and isinstance(after, list):
        _compare_lists(before, after, path, edits)
    else:
        edits.set[show(path)] = after


def _compare_lists(before: list[Any], after: list[Any], path: Path, edits: _Edits) -> None:
    key = _field(before)
    if key is None and len(before) == len(after) and _are_objects([*before, *after]):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(one, other, (*path, index), edits)
        return
    if key is not None and not _tells_apart(key, after):
        edits.set[show(path)] = after
        return
    old, new = _identities(before, key), _identities(after, key)
    splices = []
    for tag, start, end, first, last in _opcodes(old, new):
        if tag == "equal":
            for i, j in zip(range(start, end), range(first, last), strict=True):
                _compare(before[i], after[j], (*path, (str(key), old[i])), edits)
            continue
        shown = before if key is None else old
        splice = {
            "after": shown[_anchor(old, start - _is_value(shown, start), end) : start],
            "gone": shown[start:end],
            "new": after[first:last],
        }
        splices.append({part: items for part, items in splice.items() if items})
    if splices:
        edits.lists[show(path)] = splices


def _are_objects(items: list[Any]) -> bool:
    return all(isinstance(item, dict) for item in items)


def _tells_apart(name: str, items: list[Any]) -> bool:
    """Whether a field with a text of its own is in every item."""
    values = [item.get(name) if isinstance(item, dict) else None for item in items]
    return all(isinstance(v, str) and v for v in values) and len(set(values)) == len(values)


def _field(items: list[Any]) -> str | None:
    """What the items of a list are known by; None for their whole value."""
    return next((name for name in _FIELDS if _tells_apart(name, items)), None)


def _identities(items: list[Any], key: str | None) -> list[str]:
    return [_text(item) if key is None else item[key] for item in items]


def _is_value(items: list[Any], index: int) -> bool:
    """Whether a flag stands before: its value is told with it."""
    around = [item for item in items[max(index - 1, 0) : index + 1] if isinstance(item, str)]
    return [item.startswith("-") for item in around] == [True, False]


def _anchor(items: list[str], start: int, end: int) -> int:
    """Where to begin so that what stands up to `end` is found where it first occurs."""
    return next(i for i in range(start, -1, -1) if _first(items, items[i:end]) == i)


def _first(items: list[str], part: list[str]) -> int:
    """Where `part` first occurs; -1 for nowhere."""
    starts = range(len(items) - len(part) + 1)
    return next((i for i in starts if items[i : i + len(part)] == part), -1)


def _edited(document: Document, parts: Document) -> Document:
    edits = _Edits(**parts)
    # Lists first: what their items are known by is seen before these are edited.
    out = copy.deepcopy(document)
    for path, splices in edits.lists.items():
        node, key = _place(out, path)
        node[key] = _spliced(node[key], splices, path)
    for path in edits.gone:
        node, key = _place(out, path)
        if key not in node:
            raise ChangesError(f"there is no {path} to go")
        del node[key]
    for path, value in edits.set.items():
        node, key = _place(out, path)
        node[key] = value
    return out


def _spliced(items: list[Any], splices: list[Document], path: str) -> list[Any]:
    """All places are found in the list as it was."""
    key = _field(items)
    old = _identities(items, key)
    out, done = [], 0
    for splice in splices:
        after, gone = (
            [_text(item) if key is None else item for item in splice.get(part, ())]
            for part in ("after", "gone")
        )
        begin = _first(old, after + gone)
        start = begin + len(after)
        if begin < 0 or start < done:
            raise ChangesError(f"{path}: {after + gone} does not stand there")
        out += items[done:start] + splice.get("new", [])
        done = start + len(gone)
    return out + items[done:]


def show(path: Path) -> str:
    """`status.conditions[type=Ready]`; a key that is no plain word is in brackets and quotes."""
    out = ""
    for step in path:
        match step:
            case int():
                out += f"[{step}]"
            case (name, value):
                out += f"[{name}={value if _BARE.fullmatch(value) else _text(value)}]"
            case "(json)":
                out += step
            case _ if _PLAIN.fullmatch(step):
                out += f".{step}" if out else step
            case _:
                out += f"[{_text(step)}]"
    return out


def parse(path: str) -> Path:
    """The inverse of `show`."""
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ChangesError(f"{path!r} is not a path, such as status.conditions[type=Ready]")
        key, index, quoted, name, value = match.groups()
        if name is not None:
            steps.append((name, json.loads(value) if value.startswith('"') else value))
        elif index is not None:
            steps.append(int(index))
        else:
            steps.append(key if quoted is None else json.loads(quoted))
        position = match.end()
    return tuple(steps)


def _place(node: Any, path: str) -> tuple[Any, Any]:
    """What holds the value at `path`, and the value's key in it."""
    *parents, last = parse(path)
    try:
        for step in parents:
            node = node[_key(node, step)]
        return node, _key(node, last)
    except (KeyError, IndexError, TypeError, StopIteration):
        raise ChangesError(f"there is no {path}") from None


def _key(node: Any, step: Step) -> str | int:
    if not isinstance(step, tuple):
        return step
    name, value = step
    return next(i for i, item in enumerate(node) if item[name] == value)
