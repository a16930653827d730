"""Replies of earlier calls, given again to the same request without parsing it.

Core names a request by a tag: its digest of everything that it knows before it fetches what the
function requires. The fetched resources, schemas and context come under the same tag, so a request
is named by the tag and a digest of all fields that the tag may not cover. What it always covers
(observed, desired, input) is most of the bytes and is skipped on the wire.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.edge.memo import Cache

_FIELDS = fnv1.RunFunctionRequest.DESCRIPTOR.fields_by_name
_TAGGED = frozenset(_FIELDS[name].number for name in ("observed", "desired", "input"))
_LENGTH_DELIMITED = 2
_LIMIT = 32 * 1024 * 1024  # bytes of replies; core takes none above 4 MiB


@dataclass
class Counted:
    """What the metrics count of a call. `outcome`: ok, fatal or bug."""

    composer: str = "dispatch"
    outcome: str = "ok"
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reply:
    """A serialised response. `valid_until`: up to when it answers, in seconds since 1970."""

    wire: bytes
    counted: Counted
    valid_until: float = math.inf


class Replies:
    """Replies by request, at most 32 MiB of them; the least recently used goes first."""

    def __init__(self) -> None:
        self._replies: Cache[bytes, Reply] = Cache(_LIMIT)

    @property
    def held(self) -> int:
        """Return the bytes that are held now."""
        return self._replies.held

    def get(self, key: bytes, now: float) -> Reply | None:
        """Return the reply to the request named `key`, None where none is valid at `now`."""
        found = self._replies.get(key)
        return found if found is not None and now <= found.valid_until else None

    def put(self, key: bytes, reply: Reply) -> None:
        """Keep a reply; it takes the place of one that has expired."""
        self._replies.drop(key)
        self._replies.put(
            key, reply, len(key) + len(reply.wire) + sum(map(len, reply.counted.refusals))
        )


def request_key(untagged: bytes) -> bytes:
    """Return what names the request with these fields, b"" where nothing does (no tag).

    Equal for any order of maps on the wire. Raises DecodeError for bytes that are no request.
    """
    request = fnv1.RunFunctionRequest.FromString(untagged)
    if not request.meta.tag:
        return b""
    return hashlib.sha256(request.SerializeToString(deterministic=True)).digest()


def untagged(wire: bytes) -> bytes:
    """Return the top-level fields of a serialised request that its tag may not cover."""
    return b"".join(_untagged(wire))


def _untagged(wire: bytes) -> Iterator[bytes]:
    at, end = 0, len(wire)
    while at < end:
        begun = at
        key, at = _varint(wire, at)
        if key & 7 != _LENGTH_DELIMITED:  # no field of ours: let protobuf judge the rest
            yield wire[begun:]
            return
        size, at = _varint(wire, at)
        at += size
        if key >> 3 not in _TAGGED or at > end:
            yield wire[begun:at]


def _varint(wire: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and where it ends; a number cut off ends with the bytes."""
    value = 0
    for index, byte in enumerate(wire[at : at + 10]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    return value, len(wire)
