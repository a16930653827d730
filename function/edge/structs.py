"""protobuf Structs to plain dicts and back, memoised by content and bounded in bytes.

About 90 % of a naive Python function's time goes into converting Structs (reference: 97 us to
encode and 152 us to decode an Object of 2.3 KB, against 7 us to parse cached bytes). A fleet sends
the same documents again and again, so both directions are looked up by content first. What a
decode returns is shared between calls: nobody may change it.

What is remembered is bounded whatever strangers send: each document is counted with all that was
derived from it, and `settle` counts again what a call has added.
"""

import marshal
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google._upb import _message
from google.protobuf import struct_pb2 as structpb

from function.edge.memo import ENTRY_BYTES, Cache, Derived, size_of
from function.kube.access import Json

_MIB = 1024 * 1024
_MAX_EXACT = 2**53


@dataclass(slots=True)
class _Document:
    """A decoded document of `bytes`, its key's included, and what was worked out from it."""

    key: bytes
    content: Json
    bytes: int
    derived: Derived = field(default_factory=Derived)


def _forget(document: _Document) -> None:
    _by_id.pop(id(document.content), None)


# 32 MiB: about 7,000 Objects, their content as the key and their bytes as the value.
_encoded: Cache[bytes, bytes] = Cache(32 * _MIB)
# 96 MiB: a wired workload takes 80 to 200 KiB with what is derived from it, another Object 30.
_decoded: Cache[bytes, _Document] = Cache(96 * _MIB, _forget)
_by_id: dict[int, _Document] = {}
# Of one document. What is larger is worked out again at each call: the largest of the corpus of
# public pods takes 50 KiB, and the tier's plan 40 more.
_MAX_DERIVED = 2 * _MIB


class _OfThread(threading.local):
    """The documents whose derived results the call under way has asked for."""

    def __init__(self) -> None:
        self.asked: list[_Document] = []


_call = _OfThread()


def encode(document: Mapping[str, Any]) -> bytes:
    """Return the serialised Struct of a JSON-like document. Its memo depends on key order."""
    plain = dict(document)
    key = marshal.dumps(plain)
    found = _encoded.get(key)
    if found is None:
        struct = structpb.Struct()
        struct.update(
            plain
        )  # json_format, which the SDK's dict_to_struct uses, takes twice as long
        found = struct.SerializeToString(deterministic=True)
        _encoded.put(key, found, len(key) + len(found) + ENTRY_BYTES)
    return found


def decode(struct: structpb.Struct) -> Json:
    """Return the document in a Struct, whole numbers as ints. It is shared: do not change it."""
    key = struct.SerializeToString(deterministic=True)
    found = _decoded.get(key)
    if found is None:
        content = _object(struct.fields)
        size = len(key) + ENTRY_BYTES + size_of(content, _decoded.limit)
        found = _Document(key, content, size)
        _by_id[id(content)] = found
        if not _decoded.put(key, found, size):
            _forget(found)
    return found.content


def derived(document: Mapping[str, Any]) -> Derived:
    """Return where to keep what is derived from a document of `decode`, as long as that is kept.

    For any other document a place that nobody else will find.
    """
    found = _by_id.get(id(document))
    if found is None:
        return Derived()
    _call.asked.append(found)
    return found.derived


def settle() -> None:
    """Count what the call that ends has derived. It may have grown until now, so not before.

    What was derived from one document and is too large is forgotten at once.
    """
    asked, _call.asked = _call.asked, []
    for document in asked:
        if document.derived.grown:
            document.derived.grown = False
            size = size_of(document.derived, _MAX_DERIVED)
            if size > _MAX_DERIVED:
                document.derived.clear()
                size = 0
            _decoded.resize(document.key, document.bytes + size)


def held() -> int:
    """Return the bytes of documents that are remembered now, both ways."""
    return _encoded.held + _decoded.held


def read(struct: structpb.Struct, *path: str | int) -> Any:
    """Return one value of a Struct without converting the rest, None where the path ends."""
    value: structpb.Value | None = None
    fields: Any = struct.fields
    for step in path:
        if value is not None:
            kind = value.WhichOneof("kind")
            if kind == "struct_value":
                fields = value.struct_value.fields
            elif kind == "list_value":
                fields = value.list_value.values
            else:
                return None
        if isinstance(step, int):
            if step >= len(fields):
                return None
        elif step not in fields:  # a protobuf map would create what is looked up
            return None
        value = fields[step]
    return None if value is None else _plain(value)


def part(struct: structpb.Struct, *path: str) -> Json:
    """Return the object at a path of a Struct, {} for anything else; see `decode`."""
    for step in path:
        fields = struct.fields
        if step not in fields or fields[step].WhichOneof("kind") != "struct_value":
            return {}
        struct = fields[step].struct_value
    return decode(struct)


def condition(struct: structpb.Struct, kind: str) -> str:
    """Return the status of a condition in `status.conditions`: "True", "False" or "Unknown"."""
    if "status" not in struct.fields:
        return "Unknown"
    status = struct.fields["status"].struct_value
    if "conditions" not in status.fields:
        return "Unknown"
    for entry in status.fields["conditions"].list_value.values:
        fields = entry.struct_value.fields
        if "type" in fields and fields["type"].string_value == kind:
            return fields["status"].string_value if "status" in fields else "Unknown"
    return "Unknown"


def allow_depth() -> None:
    """Let requests nest as deep as an API server does; call it before threads are started.

    protobuf stops at 100 messages, which are 33 levels of a document: a CustomResourceDefinition in
    an Object has more. Without its limit upb stops at 65,535, and needs 50 MiB of stack for them.
    """
    _message.SetAllowOversizeProtos(True)
    threading.stack_size(64 * _MIB)


def _plain(value: structpb.Value) -> Any:
    return _values((value,))[0]


def _object(fields: Mapping[str, structpb.Value]) -> Json:
    keys = sorted(fields)
    return dict(zip(keys, _values(map(fields.__getitem__, keys)), strict=True))


def _values(values: Iterable[structpb.Value]) -> list[Any]:
    """Convert many values in one loop: a call for each would cost more than reading it."""
    found: list[Any] = []
    for value in values:
        kind = value.WhichOneof("kind")
        if kind == "string_value":
            found.append(value.string_value)
        elif kind == "struct_value":
            found.append(_object(value.struct_value.fields))
        elif kind == "list_value":
            found.append(_values(value.list_value.values))
        elif kind == "number_value":
            number = value.number_value
            whole = number.is_integer() and abs(number) <= _MAX_EXACT
            found.append(int(number) if whole else number)
        else:
            found.append(value.bool_value if kind == "bool_value" else None)
    return found
