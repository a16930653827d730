"""A call over the plain documents of a world, without protobuf."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from function.edge import structs
from function.edge.request import Call
from function.kube import access

Document = dict[str, Any]
# What a call that lacks something leaves in the context of the next one.
ASKED = b"asked"


class Asked(NamedTuple):
    """What core asks, of interned documents."""

    composite: Document
    observed: Mapping[str, Document]
    required: Mapping[str, Sequence[Document]]
    desired: Mapping[str, Document]
    step_input: Document | None
    context: bytes


@dataclass
class Memory:
    """What is known of interned documents, by identity: the world keeps them alive."""

    typed: dict[int, Document] = field(default_factory=dict)
    composites: dict[int, tuple[Document, bytes]] = field(default_factory=dict)

    def document(self, document: Document) -> Document:
        """Return a foreign document whose well-known fields have their types."""
        found = self.typed.get(id(document))
        if found is None:
            found = self.typed[id(document)] = access.typed(document)
        return shared(found)

    def composite(self, document: Document) -> tuple[Document, bytes]:
        """Return a composite whose well-known fields have their types, and its spec as bytes."""
        found = self.composites.get(id(document))
        if found is None:
            spec = structs.encode(document.get("spec", {}))
            typed = access.typed(document, access.COMPOSITE)
            found = self.composites[id(document)] = typed, spec
        return found


def shared(document: Document) -> Document:
    """Let the function keep with a document what it derives from it."""
    if id(document) not in structs._by_id:
        structs._by_id[id(document)] = structs._Document(b"", document, 0)
    return document


class PlainCall(Call):
    """What `Call` reads from a request, read from interned documents.

    The world compares a share of its answers with those to a real request.
    """

    def __init__(self, asked: Asked, memory: Memory, now: float) -> None:
        self._now, self.valid_until = now, float("inf")
        self.valid_since = 0.0  # a world's clock begins anew, a function's does not
        self._added: dict[str, Document] = {}
        self.taken_for_observed: set[str] = set()
        self._memory, self._context = memory, asked.context
        self.composite, self._spec = memory.composite(asked.composite)
        self._observed, self._required = asked.observed, asked.required
        self._desired, self._input = asked.desired, asked.step_input or {}

    def has_passed(self, moment: float) -> bool:
        passed = super().has_passed(moment)
        if passed:
            self.valid_since = max(self.valid_since, moment)
        return passed

    @property
    def input(self) -> Document:
        return self._input

    @property
    def is_unresponsive(self) -> bool:
        return _status(self.composite, "Responsive") == "False"

    def is_watched(self, names: Collection[str]) -> bool:
        return bool(names) and not self.lacks(names) and self._context != ASKED

    def lacks(self, names: Collection[str]) -> bool:
        return any(name not in self._required for name in names)

    def composite_value(self, *path: str | int) -> Any:
        return _at(self.composite, path)

    @property
    def composite_spec_bytes(self) -> bytes:
        return self._spec

    def required(self, name: str) -> list[Document] | None:
        found = self._required.get(name)
        return None if found is None else [self._memory.document(each) for each in found]

    def required_values(
        self, name: str, *paths: tuple[str | int, ...]
    ) -> list[tuple[Any, ...]] | None:
        found = self.required(name)
        return found and [tuple(_at(each, path) for path in paths) for each in found]

    def required_schema(self, name: str) -> None:
        return None

    def declares_status(self, name: str, field: str) -> bool:
        return False

    @property
    def anything_observed(self) -> bool:
        return bool(self._observed)

    def _observe_required(self, key: str, name: str, position: int) -> None:
        self._observed = {**self._observed, key: self._required[name][position]}

    def is_observed(self, key: str) -> bool:
        return key in self._observed

    def observed_keys(self) -> list[str]:
        return sorted(self._observed)

    def observed(self, key: str) -> Document | None:
        found = self._observed.get(key)
        return None if found is None else self._memory.document(found)

    def observed_value(self, key: str, *path: str | int) -> Any:
        return _at(self.observed(key), path)

    def observed_part(self, key: str, *path: str) -> Document:
        found = self.observed_value(key, *path)
        return found if isinstance(found, dict) else {}

    def observed_condition(self, key: str, kind: str) -> str:
        return _status(self._observed.get(key), kind)

    def desired_keys(self) -> list[str]:
        return sorted({*self._desired, *self._added})

    def desired(self, key: str) -> Document:
        return self._added[key] if key in self._added else shared(self._desired[key])

    def is_taken(self, key: str, manifest: Mapping[str, Any]) -> bool:
        return key in self._desired and self._desired[key] != manifest

    def desired_value(self, key: str, *path: str | int) -> Any:
        return _at(self.desired(key), path)

    def desired_mentions(self, key: str, *texts: str) -> bool:
        whole = str(self.desired(key))
        return any(text in whole for text in texts)


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _status(document: Any, kind: str) -> str:
    return str(access.condition(document, kind).get("status", "Unknown"))
