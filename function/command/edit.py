"""Rewriting a program: edits of engine calls become edits of the container's lists.

A word of a script is edited in the script's decoded text; that edit becomes one of the text around
it, quoted for the place it stands in, and so on out to the item of `command` or `args`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from function.command import kubernetes, proof, quoting
from function.command.budget import ARGUMENT_BYTES, Budget, OverBudget
from function.command.model import OPT_IN, Append, Delete, Edit, EngineCall, Replace, Word, shown
from function.command.places import KEYS, ListPlace, ListSlot, NodePlace, NodeSlot
from function.command.program import ParsedCommand, Program
from function.command.proof import TextEdit
from function.command.shell.script import Script
from function.problems import Refused
from function.reasons import Reason


def _refused(why: str) -> Refused:
    return Refused(Reason.ARGS_NOT_PATCHABLE, why)


def rewrite(
    program: Program, edits: Mapping[int, Sequence[Edit]], budget: Budget | None = None
) -> dict[str, Any]:
    """Return the container's new `command` and `args`, only the keys that changed.

    `edits`: per call, by its index in `program.calls`. Raises Refused(ArgsNotPatchable) when the
    result is not proven to be the program with exactly these edits. `budget`: counts the proof's
    work; only scripts that were edited are parsed.
    """
    wanted = {index: tuple(items) for index, items in edits.items() if items}
    if not wanted:
        return {}
    parsed = program.parsed
    if parsed is None:
        raise _refused(program.problem or "nothing was read that could be edited")
    pending = _Pending(parsed)
    for index in sorted(wanted):
        if not 0 <= index < len(program.calls):
            raise _refused(f"there is no engine call {index} in this command")
        call = program.calls[index]
        try:
            _collect(call, wanted[index], pending)
        except Refused as refusal:
            raise _refused(_by_hand(refusal.message, wanted[index])) from None
    try:
        lists = pending.apply()
        result = {key: lists[key] for key in KEYS if tuple(lists[key]) != parsed.lists[key]}
        proof.check(program, wanted, result, pending.texts, budget or Budget())
    except OverBudget as limit:
        raise _refused(f"the edit could not be proven: {limit}") from None
    except Refused as refusal:
        every = [edit for items in wanted.values() for edit in items]
        raise _refused(_by_hand(refusal.message, every)) from None
    return result


def _by_hand(why: str, edits: Sequence[Edit]) -> str:
    words = [quoting.word(edit.value).decode() for edit in edits if isinstance(edit, Append)]
    hint = "" if OPT_IN in why else f"; pass ${OPT_IN}, unquoted, in the user's own script"
    return f"{why}{hint}; or add by hand: {' '.join(words)}" if words else why


class _Pending:
    """Edits of one program, collected from all its calls and applied together."""

    def __init__(self, parsed: ParsedCommand) -> None:
        self._parsed = parsed
        self._items: dict[tuple[str, int], str | None] = {}
        self._before: dict[tuple[str, int], list[str]] = {}
        # Per script, by its place in the reading.
        self.texts: dict[int, list[TextEdit]] = {}

    def set(self, place: ListPlace | NodePlace, edit: Replace | Delete) -> None:
        if isinstance(place, ListPlace):
            self._once(self._items, (place.key, place.index), _raw(edit))
            return
        if isinstance(edit, Delete):
            start = _gap(self._parsed.scripts[place.script].text.data, place.start)
            made = TextEdit(start, place.end, ())
        else:
            made = TextEdit(place.start, place.end, _chunks([edit]), (edit,))
        self.texts.setdefault(place.script, []).append(made)

    def insert(self, slot: ListSlot | NodeSlot, edits: Sequence[Append]) -> None:
        if isinstance(slot, ListSlot):
            items = self._before.setdefault((slot.key, slot.index), [])
            items += [_raw(edit) or "" for edit in edits]
            return
        chunks = [part for chunk in _chunks(edits) for part in ((b" ", False), chunk)]
        made = TextEdit(slot.end, slot.end, tuple(chunks), tuple(edits))
        self.texts.setdefault(slot.script, []).append(made)

    @staticmethod
    def _once(known: dict[Any, Any], key: Any, value: Any) -> None:
        if known.setdefault(key, value) != value:
            raise _refused("one word would have to become two different ones")

    def apply(self) -> dict[str, list[str]]:
        """Return the new lists. Inner scripts follow their outer ones, so they are folded first."""
        raw: dict[tuple[str, int], list[TextEdit]] = {}
        texts = {index: list(edits) for index, edits in self.texts.items()}
        for index in range(len(self._parsed.scripts) - 1, -1, -1):
            script = self._parsed.scripts[index]
            for edit in texts.get(index, ()):
                if script.limit < edit.end:
                    raise _refused(script.loose)
                place = script.holder.place
                if isinstance(place, ListPlace):
                    raw.setdefault((place.key, place.index), []).append(_outward(script, edit))
                elif script.holder.script is not None:
                    outer = script.holder.script.number
                    texts.setdefault(outer, []).append(_outward(script, edit))
        for (key, index), edits in raw.items():
            data = self._parsed.lists[key][index].encode()
            self._once(self._items, (key, index), spliced(data, edits).decode("utf-8", "replace"))
        return {key: self._list(key) for key in KEYS}

    def _list(self, key: str) -> list[str]:
        items = self._parsed.lists[key]
        made: list[str] = []
        for index in range(len(items) + 1):
            made += self._before.get((key, index), ())
            if index < len(items):
                item = self._items.get((key, index), items[index])
                made += [] if item is None else [item]
        return made


def spliced(data: bytes, edits: Sequence[TextEdit]) -> bytes:
    """Return `data` with `edits`, which must not overlap."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    out, at = bytearray(), 0
    for edit in ordered:
        if edit.start < at:
            raise _refused("two edits meet in one place")
        out += data[at : edit.start] + edit.new
        at = edit.end
    return bytes(out + data[at:])


def _outward(script: Script, edit: TextEdit) -> TextEdit:
    """Return the edit of the outer text (of a script or an argv item) that makes `edit`."""
    source = script.text.source(edit.start, edit.end)
    if source is None:
        raise _refused("the place to edit comes out of a variable")
    start, end = source.start, source.end
    if isinstance(script.holder.place, ListPlace):
        parts = [(data if expand else _escaped(data), expand) for data, expand in edit.chunks]
        return TextEdit(start, end, tuple(parts))
    if any(expand for _, expand in edit.chunks):
        raise _refused("$(VAR) for Kubernetes cannot be quoted inside an inner script")
    made = quoting.encode(edit.new, source.mode) if edit.new else b""
    if len(made) > ARGUMENT_BYTES:
        raise _refused("the new words are too long to be quoted so often")
    return TextEdit(start, end, ((made, False),) if made else ())


def _escaped(data: bytes) -> bytes:
    return kubernetes.escape(data.decode("utf-8", "replace")).encode()


def _gap(data: bytes, start: int) -> int:
    """Return where the blanks before a word begin; a line continuation is left."""
    while start > 0 and data[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    return start


def _chunks(edits: Sequence[Replace | Append]) -> tuple[tuple[bytes, bool], ...]:
    return tuple((quoting.word(edit.value), edit.expand) for edit in edits)


def _raw(edit: Edit) -> str | None:
    if isinstance(edit, Delete):
        return None
    return edit.value if edit.expand else kubernetes.escape(edit.value)


def _in_place(word: Word) -> bool:
    """Return whether the word's own text may change.

    An item of a list may change as a whole, also one that names a variable with a known value.
    """
    seen = isinstance(word.place, ListPlace) and word.value is not None
    return not word.origin or (seen and word.origin.startswith("$("))


def _collect(call: EngineCall, edits: Sequence[Edit], pending: _Pending) -> None:
    if call.closed:
        raise _refused(call.closed)
    if not all(kubernetes.is_text(edit.value) for edit in edits if not isinstance(edit, Delete)):
        raise _refused("a word cannot hold a NUL byte, nor what is no text")
    seen: set[int] = set()
    for edit in edits:
        if isinstance(edit, Append):
            continue
        if edit.index in seen or not 0 <= edit.index < len(call.words):
            raise _refused(f"word {edit.index} of the engine cannot be edited twice")
        seen.add(edit.index)
        word = call.words[edit.index]
        if word.place is None or not _in_place(word):
            source = word.origin or ("the image" if word.value is not None else "an expansion")
            raise _refused(
                f"the engine's word {shown(word.value or word.text)} comes from {shown(source)}, "
                "and cannot be changed in place: change it there"
            )
        pending.set(word.place, edit)
    appended = [edit for edit in edits if isinstance(edit, Append)]
    if not appended:
        return
    if call.slot is None:
        raise _refused(f"this call takes its further words from ${OPT_IN}")
    pending.insert(call.slot, appended)
