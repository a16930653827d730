"""The proof of a rewrite: what was written is read again, and must be what was meant.

Three things are compared. The engine calls: the same ones, each with exactly the intended words.
The scripts: the new text is parsed on its own, and its tree must be the old tree, node by node,
with the intended words in the intended places. All items of command and args that hold no edit:
unchanged. Whatever differs refuses the rewrite; nothing here repairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from function.command import kubernetes
from function.command.model import NOT_PATCHABLE, Append, Delete, Edit, EngineCall, Program, Word
from function.command.shell import values
from function.command.shell.grammar import WORD_KINDS, Node, walk
from function.problems import Refused

if TYPE_CHECKING:
    from function.command.edit import TextEdit
    from function.command.shell.script import Script

# What a word looks like to a proof: value, static beginning, may split, certain.
Seen = tuple[str | None, str, bool, bool]


def check(
    program: Program,
    edits: Mapping[int, Sequence[Edit]],
    result: Mapping[str, Any],
    texts: Mapping[int, Sequence["TextEdit"]],
) -> None:
    """Raises Refused(ArgsNotPatchable) unless `result` is `program` with exactly `edits`.

    `texts`: the edits of scripts, by the script's place in the reading.
    """
    from function.command.reader import read

    container = {**program.reading.container, **result}
    after = read(container, program.reading.image_call)
    if (len(after.calls), after.problem) != (len(program.calls), program.problem):
        raise _unproven("the edited command does not start the same engines")
    for index, (old, new) in enumerate(zip(program.calls, after.calls, strict=True)):
        _same_call(old, new, edits.get(index, ()), program)
    before, now = program.reading.scripts, after.reading.scripts
    if len(before) != len(now):
        raise _unproven("the edited command does not run the same scripts")
    for index, (old, new) in enumerate(zip(before, now, strict=True)):
        inner = (_held(old, before), _held(new, now))
        if len(inner[0]) != len(inner[1]):
            raise _unproven("the edited command does not run the same scripts")
        _same_script(old, new, texts.get(index, ()), program.reading.env, inner)


def _held(script: "Script", every: Sequence["Script"]) -> frozenset[tuple[int, int]]:
    return frozenset(
        (place.start, place.end)
        for other in every
        if other.holder.script is script
        for place in other.holder.place
    )


def _unproven(why: str) -> Refused:
    return Refused(NOT_PATCHABLE, f"the edit could not be proven: {why}")


def _same_call(old: EngineCall, new: EngineCall, edits: Sequence[Edit], program: Program) -> None:
    if (old.engine, old.entrypoint, old.opted_in) != (new.engine, new.entrypoint, new.opted_in):
        raise _unproven("an engine would start in another way")
    if _expected(old, edits, program) != [_seen(word) for word in new.words]:
        raise _unproven("the engine would not get exactly the intended words")


def _seen(word: Word) -> Seen:
    return (word.value, word.prefix, word.many, word.certain)


def _expected(old: EngineCall, edits: Sequence[Edit], program: Program) -> list[Seen]:
    """The words that the edited call must have; appended ones stand at the call's slot."""
    changed = {edit.index: edit for edit in edits if not isinstance(edit, Append)}
    added = [_made(edit, program) for edit in edits if isinstance(edit, Append)]
    words: list[Seen] = []
    for index in range(len(old.words) + 1):
        if old.slot is not None and index == old.slot.before:
            words += added
        if index == len(old.words):
            break
        edit = changed.get(index)
        if edit is None:
            words.append(_seen(old.words[index]))
        elif not isinstance(edit, Delete):
            words.append(_made(edit, program))
    return words


def _made(edit: Any, program: Program) -> Seen:
    """The word that an edit makes, after Kubernetes expanded what it was asked to."""
    if not edit.expand:
        return (edit.value, edit.value, False, True)
    text = kubernetes.expand(edit.value, program.reading.env)
    if not text.opaque:
        return (text.decode(), text.decode(), False, True)
    prefix = text.data[: text.opaque[0].start].decode("utf-8", "replace")
    return (None, prefix, False, True)


def _same_script(
    old: "Script", new: "Script", edits: Sequence["TextEdit"], env: kubernetes.Env, inner: "Inner"
) -> None:
    if old.text.data == new.text.data:
        if edits:
            raise _unproven("an edit was lost")
        return
    if old.error or new.error:
        raise _unproven(old.error or new.error)
    wanted = _tokens(old, old.tree.root_node, inner[0], _Marks(edits, env))
    given = _tokens(new, new.tree.root_node, inner[1], _Marks((), env))
    for want, have in zip_longest(wanted, given):
        if want is None or have is None or not _matches(want, have, new):
            raise _unproven("the edited script would not run the same commands and words")


# The byte ranges, in the old and in the new script, of the words that hold an inner script. They
# are compared as scripts of their own.
Inner = tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]
_INNER, _EDITED = "inner script", "edited word"
_LITERALS = frozenset({"word", "number", "raw_string", "concatenation", "command_name"})


class _Marks:
    """The intended edits of one script, by the byte range of the node they concern."""

    def __init__(self, edits: Sequence["TextEdit"], env: kubernetes.Env) -> None:
        self.replaced: dict[tuple[int, int], bytes] = {}
        self.deleted: set[int] = set()
        self.inserted: dict[int, list[bytes]] = {}
        for edit in edits:
            values = [_received(word, env) for word in edit.words]
            if not values:
                self.deleted.add(edit.end)
            elif edit.start == edit.end:
                self.inserted.setdefault(edit.end, []).extend(values)
            else:
                self.replaced[edit.start, edit.end] = values[0]


def _received(edit: Any, env: kubernetes.Env) -> bytes:
    value = edit.value.encode()
    return kubernetes.expand(edit.value, env).data if edit.expand else value


@dataclass(frozen=True)
class _Token:
    kind: str
    text: bytes
    node: Node = None


def _tokens(
    script: "Script", node: Node, inner: frozenset[tuple[int, int]], marks: _Marks
) -> Iterator[_Token]:
    """The tree in source order: what a shell distinguishes, word by word."""
    span = (node.start_byte, node.end_byte)
    if node.type not in WORD_KINDS and node.type != "command_name":
        yield from _below(script, node, inner, marks)
        return
    if span in marks.replaced:
        yield _Token(_EDITED, marks.replaced[span])
    elif node.end_byte in marks.deleted:
        pass
    elif span in inner:
        yield _Token(_INNER, b"")
    elif any(child.type == "command" for child in walk(node)):
        yield from _below(script, node, inner, marks)
    else:
        yield _Token(node.type, script.bytes(node), node)
    for value in marks.inserted.get(node.end_byte, ()):
        yield _Token(_EDITED, value)


def _below(
    script: "Script", node: Node, inner: frozenset[tuple[int, int]], marks: _Marks
) -> Iterator[_Token]:
    if not node.children:
        yield _Token(node.type, script.bytes(node), node)
        return
    yield _Token(node.type, b"(")
    at = node.start_byte
    quoted = node.type in ("string", "heredoc_body")
    for child in node.children:
        # The grammar leaves blanks in quotes out of its nodes; they are part of the word.
        if quoted and child.start_byte > at:
            yield _Token("gap", script.text.data[at : child.start_byte])
        yield from _tokens(script, child, inner, marks)
        at = child.end_byte
    yield _Token(node.type, b")")


def _matches(want: _Token, have: _Token, new: "Script") -> bool:
    if want.kind != _EDITED:
        return (want.kind, want.text) == (have.kind, have.text)
    if have.node is None or any(n.is_named and n.type not in _LITERALS for n in walk(have.node)):
        return False
    return values.text_of(new, [have.node]).data == want.text
