"""Remembering what was worked out, in bytes and not in entries, for any number of threads.

A `Cache` holds at most so many bytes. What follows from a document is kept *with* that document
(`function.edge.structs`), so that it goes when the document goes, and a document that is not
remembered leaves nothing behind. All that is kept is measured by `size_of`: a document of 600 bytes
can hold a script of which 12 MiB are derived.
"""

import re
import sys
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from gc import get_referents
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

# What one document's derived results may be: as many steps and records as ever ask for it at once.
_MAX_DERIVED = 16

# What is there once for the process, and no part of what refers to it.
_SHARED = (type, ModuleType, BuiltinFunctionType, re.Pattern)
# What an entry of a cache takes beside its key and value.
ENTRY_BYTES = 256


def size_of(thing: object, most: int) -> int:
    """Return the bytes of a value and of all that it alone refers to.

    Counting stops where it exceeds `most`: the answer is then larger than `most`.
    """
    total, seen, todo = 0, set[int](), [thing]
    while todo and total <= most:
        fresh: list[object] = []
        closures: list[object] = []
        for thing in todo:
            if id(thing) in seen or isinstance(thing, _SHARED):
                continue
            seen.add(id(thing))
            total += sys.getsizeof(thing)
            if isinstance(thing, FunctionType):  # it refers to its whole module
                closures += thing.__closure__ or ()
            else:
                fresh.append(thing)
        todo = closures + get_referents(*fresh)
    return total


class Cache(Generic[K, V]):
    """An LRU of at most `limit` bytes. Values are shared between calls: nobody may change them."""

    def __init__(self, limit: int, forget: Callable[[V], None] = lambda _: None) -> None:
        """`forget`: called with each value that leaves."""
        self._lock = threading.Lock()
        self._entries: LRUCache[K, tuple[V, int]] = _Leaving(limit, forget)

    @property
    def limit(self) -> int:
        """Return the most bytes that are held."""
        return int(self._entries.maxsize)

    @property
    def held(self) -> int:
        """Bytes that are held now, as they were given."""
        return int(self._entries.currsize)

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._entries.get(key)
            return None if found is None else found[0]

    def put(self, key: K, value: V, size: int) -> bool:
        """Hold a value of `size` bytes, unless it alone would push out a large part of the rest.

        Whether it is held now; False too where another thread has put one before.
        """
        with self._lock:
            if 8 * size > self._entries.maxsize or key in self._entries:
                return False
            self._entries[key] = (value, size)
            return True

    def drop(self, key: K) -> None:
        """Forget one entry, if it is held."""
        with self._lock:
            self._entries.pop(key, None)

    def resize(self, key: K, size: int) -> None:
        """Count an entry anew that has grown, where it is still held: the oldest make room."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                LRUCache.__delitem__(self._entries, key)  # it does not leave
                self._entries[key] = (found[0], size)


class _Leaving(LRUCache[Any, Any]):
    def __init__(self, limit: int, forget: Callable[[Any], None]) -> None:
        super().__init__(limit, getsizeof=itemgetter(1))
        self._forget = forget

    def __delitem__(self, key: Any, *args: Any, **kwargs: Any) -> None:
        self._forget(self[key][0])
        super().__delitem__(key, *args, **kwargs)


@dataclass(slots=True)
class Derived:
    """What was worked out from one thing: at most 16 results, the oldest goes first.

    `grown`: there are results that nobody has counted yet.
    """

    grown: bool = False
    _results: dict[tuple[Hashable, ...], tuple[tuple[Any, ...], Any]] = field(default_factory=dict)

    def get(self, make: Callable[[], T], *objects: Any, key: tuple[Hashable, ...] = ()) -> T:
        """`make()`, or its result of an earlier time for the very same `objects` and equal `key`.

        The objects are held, so that none of their ids can come to stand for another object.
        """
        ids = (*map(id, objects), *key)
        found = self._results.get(ids)
        if found is None:
            found = (objects, make())
            while len(self._results) >= _MAX_DERIVED:
                self._results.pop(next(iter(self._results)), None)
            self._results[ids] = found
            self.grown = True
        result: T = found[1]
        return result

    def clear(self) -> None:
        """Forget all results."""
        self._results.clear()
