"""The proof of a rewrite: what was written is read again, and must be what was meant.

Three things are compared. The engine calls: the same ones, each with exactly the intended words.
The scripts: the new text is parsed on its own, and its tree must be the old tree, node by node,
with the intended words in the intended places. All items of command and args that hold no edit:
unchanged. Whatever differs refuses the rewrite; nothing here repairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from function.command import kubernetes
from function.command.budget import Budget
from function.command.model import Append, Delete, Edit, EngineCall, Replace, Word
from function.command.program import Program
from function.command.reader import attempt
from function.command.shell.expansion import literal
from function.command.shell.grammar import WORD_KINDS, Node
from function.command.shell.script import Script
from function.problems import Refused
from function.reasons import Reason


@dataclass(frozen=True)
class TextEdit:
    """Bytes `start:end` of a script become `chunks`: (text, whether Kubernetes expands it)."""

    start: int
    end: int
    chunks: tuple[tuple[bytes, bool], ...]
    # What the proof must find: the words made here, in order. None for a deletion, and for what an
    # inner script's edit comes to in the outer one.
    words: tuple[Replace | Append, ...] = ()

    @property
    def new(self) -> bytes:
        return b"".join(data for data, _ in self.chunks)


# What a word looks like to a proof: value, static beginning, may split.
Seen = tuple[str | None, str, bool]


def check(
    program: Program,
    edits: Mapping[int, Sequence[Edit]],
    result: Mapping[str, Any],
    texts: Mapping[int, Sequence[TextEdit]],
    budget: Budget,
) -> None:
    """Raise Refused(ArgsNotPatchable) unless `result` is `program` with exactly `edits`.

    `texts`: the edits of scripts, by the script's number. Raises OverBudget too.
    """
    parsed = program.parsed
    assert parsed is not None
    # A script that was not edited has its tree already.
    trees = {script.text.data + b"\n": script.tree for script in parsed.scripts}
    after = attempt({**parsed.container, **result}, parsed.image_call, budget, trees)
    if (len(after.calls), after.problem) != (len(program.calls), program.problem):
        raise _unproven("the edited command does not start the same engines")
    for index, (old, new) in enumerate(zip(program.calls, after.calls, strict=True)):
        _same_call(old, new, _Wanted(edits.get(index, ()), parsed.env, budget))
    before, now = parsed.scripts, after.parsed.scripts if after.parsed else ()
    if len(before) != len(now):
        raise _unproven("the edited command does not run the same scripts")
    inner = [_held(scripts) for scripts in (before, now)]
    for number, (was, became) in enumerate(zip(before, now, strict=True)):
        old_inner, new_inner = (held.get(number, frozenset()) for held in inner)
        if len(old_inner) != len(new_inner):
            raise _unproven("the edited command does not run the same scripts")
        marks = _Marks(texts.get(number, ()), old_inner, parsed.env, budget)
        _same_script(was, became, marks, _Marks((), new_inner, parsed.env, budget), budget)


# The byte ranges of words, in one script.
Ranges = frozenset[tuple[int, int]]


def _held(scripts: Sequence[Script]) -> dict[int, Ranges]:
    """Return the words that hold an inner script, by the number of their script.

    They are compared as scripts of their own.
    """
    found: dict[int, set[tuple[int, int]]] = {}
    for script in scripts:
        place = script.holder.place
        for word in place if isinstance(place, tuple) else ():
            found.setdefault(word.script, set()).add((word.start, word.end))
    return {number: frozenset(words) for number, words in found.items()}


def _unproven(why: str) -> Refused:
    return Refused(Reason.ARGS_NOT_PATCHABLE, f"the edit could not be proven: {why}")


def _same_call(old: EngineCall, new: EngineCall, wanted: "_Wanted") -> None:
    start = (old.engine, old.entrypoint, old.opted_in, old.evaluated)
    if start != (new.engine, new.entrypoint, new.opted_in, new.evaluated):
        raise _unproven("an engine would start in another way")
    if wanted.words(old) != [_seen(word) for word in new.words]:
        raise _unproven("the engine would not get exactly the intended words")


def _seen(word: Word) -> Seen:
    return (word.value, word.prefix, word.many)


class _Wanted:
    """What an edited call must have."""

    def __init__(self, edits: Sequence[Edit], env: kubernetes.Env, budget: Budget) -> None:
        self._env = env
        self._budget = budget
        self._changed = {edit.index: edit for edit in edits if not isinstance(edit, Append)}
        self._added = [self._made(edit) for edit in edits if isinstance(edit, Append)]

    def words(self, old: EngineCall) -> list[Seen]:
        """Check that appended words stand at the call's slot."""
        words: list[Seen] = []
        for index in range(len(old.words) + 1):
            if old.slot is not None and index == old.slot.before:
                words += self._added
            if index == len(old.words):
                break
            edit = self._changed.get(index)
            if edit is None:
                words.append(_seen(old.words[index]))
            elif not isinstance(edit, Delete):
                words.append(self._made(edit))
        return words

    def _made(self, edit: Replace | Append) -> Seen:
        """Return the word that an edit makes, after Kubernetes expanded it."""
        if not edit.expand:
            return (edit.value, edit.value, False)
        text = kubernetes.expand(edit.value, self._env, self._budget)
        if not text.opaque:
            return (text.decode(), text.decode(), False)
        prefix = text.data[: text.opaque[0].start].decode("utf-8", "replace")
        return (None, prefix, False)


def _same_script(old: Script, new: Script, marks: "_Marks", none: "_Marks", budget: Budget) -> None:
    if old.text.data == new.text.data:
        if marks:
            raise _unproven("an edit was lost")
        if _hidden(old) != _hidden(new):
            raise _unproven("another text would be pasted into a script")
        return
    if old.error or new.error:
        raise _unproven(old.error or new.error)
    for want, have in zip_longest(_tokens(old, marks), _tokens(new, none)):
        budget.step()
        if want is None or have is None or not _matches(want, have, new, budget):
            raise _unproven("the edited script would not run the same commands and words")


def _hidden(script: Script) -> list[tuple[int, int, str]]:
    return [(part.start, part.end, part.name) for part in script.text.opaque]


_INNER, _EDITED = "inner script", "edited word"
_LITERALS = frozenset({"word", "number", "raw_string", "concatenation", "command_name"})


class _Marks:
    """The intended edits of one script, and the words that hold an inner one, by byte ranges."""

    def __init__(
        self, edits: Sequence[TextEdit], inner: Ranges, env: kubernetes.Env, budget: Budget
    ) -> None:
        self.inner = inner
        self.replaced: dict[tuple[int, int], bytes] = {}
        self.deleted: set[int] = set()
        self.inserted: dict[int, list[bytes]] = {}
        for edit in edits:
            made = [_received(word, env, budget) for word in edit.words]
            if not made:
                self.deleted.add(edit.end)
            elif edit.start == edit.end:
                self.inserted.setdefault(edit.end, []).extend(made)
            else:
                self.replaced[edit.start, edit.end] = made[0]

    def __bool__(self) -> bool:
        return bool(self.replaced or self.deleted or self.inserted)


def _received(edit: Replace | Append, env: kubernetes.Env, budget: Budget) -> bytes:
    value = edit.value.encode()
    return kubernetes.expand(edit.value, env, budget).data if edit.expand else value


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: bytes
    node: Node | None = None


def _tokens(script: Script, marks: _Marks) -> Iterator[_Token]:
    """Return the tree in source order: what a shell distinguishes, word by word."""
    data = script.text.data
    stack: list[Node | _Token] = [script.tree.root]
    while stack:
        node = stack.pop()
        if isinstance(node, _Token):
            yield node
            continue
        word = node.type in WORD_KINDS or node.type == "command_name"
        if word:
            # Pushed first, they come behind all of the word.
            added = marks.inserted.get(node.end, ())
            stack.extend(_Token(_EDITED, value) for value in reversed(added))
            span = (node.start, node.end)
            if span in marks.replaced:
                yield _Token(_EDITED, marks.replaced[span])
                continue
            if node.end in marks.deleted:
                continue
            if span in marks.inner:
                yield _Token(_INNER, b"")
                continue
        if not node.children or (word and not script.tree.holds_command(node)):
            yield _Token(node.type, script.bytes(node), node)
            continue
        yield _Token(node.type, b"(")
        below: list[Node | _Token] = []
        at = node.start
        quoted = node.type in ("string", "heredoc_body")
        for child in node.children:
            # The grammar leaves blanks in quotes out of its nodes; they are part of the word.
            if quoted and child.start > at:
                below.append(_Token("gap", data[at : child.start]))
            below.append(child)
            at = child.end
        stack.append(_Token(node.type, b")"))
        stack.extend(reversed(below))


def _matches(want: _Token, have: _Token, new: Script, budget: Budget) -> bool:
    if want.kind != _EDITED:
        return (want.kind, want.text) == (have.kind, have.text)
    node = have.node
    if node is None or any(n.named and n.type not in _LITERALS for n in new.tree.below(node)):
        return False
    return literal(new, node, budget) == want.text
