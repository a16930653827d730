"""The proof of a rewrite: what was written is read again, and must be what was meant."""

from collections.abc import Mapping, Sequence
from typing import Any

from function.problems import Refused
from function.wiring.command import kubernetes
from function.wiring.command.model import NOT_PATCHABLE, Append, Delete, Edit, EngineCall, Program


def check(
    program: Program, edits: Mapping[int, Sequence[Edit]], result: Mapping[str, Any]
) -> Program:
    """Raises Refused(ArgsNotPatchable) unless `result` is `program` with exactly `edits`."""
    from function.wiring.command.reader import read

    container = {**program.reading.container, **result}
    after = read(container, program.reading.image_call)
    if len(after.calls) != len(program.calls) or after.problem != program.problem:
        raise unproven("the edited command does not start the same engines")
    for index, (old, new) in enumerate(zip(program.calls, after.calls, strict=True)):
        _same_call(old, new, edits.get(index, ()), program)
    return after


def unproven(why: str) -> Refused:
    return Refused(NOT_PATCHABLE, f"the edit could not be proven: {why}")


def _same_call(old: EngineCall, new: EngineCall, edits: Sequence[Edit], program: Program) -> None:
    if (old.engine, old.entrypoint, old.opted_in) != (new.engine, new.entrypoint, new.opted_in):
        raise unproven("an engine would start in another way")
    if expected(old, edits, program) != [_seen(word) for word in new.words]:
        raise unproven("the engine would not get exactly the intended words")


def _seen(word: Any) -> tuple[Any, ...]:
    return (word.value, word.prefix, word.many, word.certain)


def expected(old: EngineCall, edits: Sequence[Edit], program: Program) -> list[tuple[Any, ...]]:
    """The words that the edited call must have; appended ones stand at the call's slot."""
    changed = {edit.index: edit for edit in edits if not isinstance(edit, Append)}
    added = [_made(edit, program) for edit in edits if isinstance(edit, Append)]
    at = append_index(old)
    words: list[tuple[Any, ...]] = []
    for index in range(len(old.words) + 1):
        if index == at:
            words += added
        if index == len(old.words):
            break
        edit = changed.get(index)
        if edit is None:
            words.append(_seen(old.words[index]))
        elif not isinstance(edit, Delete):
            words.append(_made(edit, program))
    return words


def append_index(call: EngineCall) -> int:
    bare = next((i for i, word in enumerate(call.words) if word.value == "--"), None)
    return len(call.words) if bare is None else bare


def _made(edit: Any, program: Program) -> tuple[Any, ...]:
    if not edit.expand:
        return (edit.value, edit.value, False, True)
    text = kubernetes.expand(edit.value, program.reading.env)
    if not text.opaque:
        return (text.decode(), text.decode(), False, True)
    return (None, text.data[: text.opaque[0].start].decode(), False, True)
