"""Rewriting a program: edits of engine calls become edits of the container's lists."""

from collections.abc import Mapping, Sequence
from typing import Any

from function.problems import Refused
from function.wiring.command import kubernetes, proof
from function.wiring.command.model import (
    NOT_PATCHABLE,
    Append,
    Delete,
    Edit,
    EngineCall,
    Program,
    Replace,
)
from function.wiring.command.reading import KEYS, ListPlace, ListSlot


def rewrite(program: Program, edits: Mapping[int, Sequence[Edit]]) -> dict[str, Any]:
    """The container's new `command` and `args`, only the keys that changed.

    Raises Refused(ArgsNotPatchable) when the result is not proven to be the program with exactly
    these edits.
    """
    wanted = {index: tuple(items) for index, items in edits.items() if items}
    if not wanted:
        return {}
    lists = {key: list(program.reading.lists[key]) for key in KEYS} if program.reading else {}
    pending = _ListEdits(lists)
    for index in sorted(wanted):
        if not 0 <= index < len(program.calls):
            raise Refused(NOT_PATCHABLE, f"there is no engine call {index} in this command")
        _collect(program.calls[index], wanted[index], pending)
    changed = pending.apply()
    result = {
        key: changed[key] for key in KEYS if tuple(changed[key]) != program.reading.lists[key]
    }
    proof.check(program, wanted, result)
    return result


class _ListEdits:
    """Edits of the container's lists, applied together."""

    def __init__(self, lists: dict[str, list[str]]) -> None:
        self._lists = lists
        self._new: dict[tuple[str, int], str | None] = {}
        self._before: dict[tuple[str, int], list[str]] = {}

    def set(self, place: ListPlace, value: str | None) -> None:
        self._new[place.key, place.index] = value

    def insert(self, slot: ListSlot, values: Sequence[str]) -> None:
        self._before.setdefault((slot.key, slot.index), []).extend(values)

    def apply(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for key, items in self._lists.items():
            made: list[str] = []
            for index in range(len(items) + 1):
                made += self._before.get((key, index), ())
                if index < len(items):
                    item = self._new.get((key, index), items[index])
                    made += [] if item is None else [item]
            out[key] = made
        return out


def _collect(call: EngineCall, edits: Sequence[Edit], pending: _ListEdits) -> None:
    if call.closed:
        raise Refused(NOT_PATCHABLE, by_hand(call, edits))
    seen: set[int] = set()
    for edit in edits:
        if isinstance(edit, Append):
            pending.insert(call.slot, [_raw(edit)])
            continue
        if edit.index in seen or not 0 <= edit.index < len(call.words):
            raise Refused(NOT_PATCHABLE, f"word {edit.index} cannot be edited, or only once")
        seen.add(edit.index)
        word = call.words[edit.index]
        if word.place is None or (word.origin and isinstance(edit, Delete) is False):
            raise Refused(NOT_PATCHABLE, f"{word.text} comes from {word.origin or 'the image'}")
        pending.set(word.place, None if isinstance(edit, Delete) else _raw(edit))


def _raw(edit: Replace | Append) -> str:
    return edit.value if edit.expand else kubernetes.escape(edit.value)


def by_hand(call: EngineCall, edits: Sequence[Edit]) -> str:
    words = [edit.value for edit in edits if isinstance(edit, Append)]
    return f"{call.closed}; or add by hand: {' '.join(words)}" if words else call.closed


def opt_in_value(program: Program, words: Sequence[str]) -> str:
    raise Refused(NOT_PATCHABLE, "no call of this command passes $KV_OFFLOAD_ARGS")
