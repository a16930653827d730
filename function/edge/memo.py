"""Remembering what was worked out for documents that come again and again.

Decoded documents are shared by content (`function.edge.structs`), so the same content is the same
object as long as it is remembered there: what follows from it can be looked up by identity, which
costs nothing, instead of by content.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from cachetools import LRUCache

T = TypeVar("T")


class Memo:
    """At most `size` results. Results are shared between calls: nobody may change them."""

    def __init__(self, size: int) -> None:
        self._results: LRUCache[tuple[Hashable, ...], tuple[tuple[Any, ...], Any]] = LRUCache(size)

    def get(self, make: Callable[[], T], *objects: Any, key: tuple[Hashable, ...] = ()) -> T:
        """`make()`, or its result of an earlier time for the very same `objects` and equal `key`.

        The objects are held, so that none of their ids can come to stand for another object.
        """
        ids = (*map(id, objects), *key)
        found = self._results.get(ids)
        if found is None:
            found = (objects, make())
            self._results[ids] = found
        return found[1]
