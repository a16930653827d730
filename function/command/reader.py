"""A container's argv, read: the engine calls it makes, or why that is not known."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from function.command import exec_form, kubernetes
from function.command.budget import Budget, OverBudget
from function.command.calls import OPT_IN_HINT, literal_opt_in, script_call, wrapper_reason
from function.command.model import EngineCall, ImageCall, Word, shown
from function.command.places import KEYS, ListPlace, ListSlot
from function.command.program import ParsedCommand, Program
from function.command.shell import commands, jobs
from function.command.shell.command_line import masks, positional
from function.command.shell.grammar import Node, Tree
from function.command.shell.script import Holder, Script, redefines


def read(
    container: Mapping[str, Any], image_call: ImageCall | None = None, budget: Budget | None = None
) -> Program:
    """Return what `container` (core/v1: command, args, env) runs. Never raises.

    `image_call`: what the image's own entrypoint starts, for a container without `command`; None
    when nothing tells. `budget`: counts the work, and ends it: a container that asks for more is
    one with a problem.
    """
    try:
        return attempt(container, image_call, budget or Budget(), {})
    except OverBudget as limit:
        return Program(problem=str(limit))


def attempt(
    container: Mapping[str, Any],
    image_call: ImageCall | None,
    budget: Budget,
    trees: Mapping[bytes, Tree],
) -> Program:
    """As read(). `trees`: of scripts that were parsed before, by their text. Raises OverBudget."""
    lists: dict[str, tuple[str, ...]] = {}
    for key in KEYS:
        value = container.get(key)
        if value is None:
            value = []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return Program(problem=f"{key} is not a list of strings")
        if not all(kubernetes.is_text(item) for item in value):
            return Program(problem=f"{key} holds a NUL, or what is no text: it cannot be started")
        lists[key] = tuple(value)
    return _Read(container, image_call, lists, budget, trees).program()


def started(program: Program) -> tuple[str, ...]:
    """Return the plain command line behind all runners ("tini --", "env A=b").

    () where it is not known, or is a script's.
    """
    parsed = program.parsed
    if parsed is None:
        return ()
    entrypoint = parsed.image_call.entrypoint if parsed.image_call else ()
    argv = (*(parsed.lists["command"] or entrypoint), *parsed.lists["args"])
    words = [Word(None if "$(" in raw else raw, raw) for raw in argv]
    at = exec_form.program_at(words)
    values = [word.value for word in words[at:]]
    known = values.index(None) if None in values else len(values)
    return tuple(value for value in values[:known] if value is not None)


_DEFINES = re.compile(r"[\w.-]+=")


class _Read:
    def __init__(
        self,
        container: Mapping[str, Any],
        image_call: ImageCall | None,
        lists: Mapping[str, tuple[str, ...]],
        budget: Budget,
        trees: Mapping[bytes, Tree],
    ) -> None:
        self._budget = budget
        self._trees = trees
        self._env = kubernetes.read_env(container, budget)
        self._image_call = image_call
        self._lists = lists
        self._parsed = ParsedCommand(container, image_call, self._env, lists)

    def program(self) -> Program:
        words = [
            item_word(raw, ListPlace(key, index), self._env, self._budget)
            for key in KEYS
            for index, raw in enumerate(self._lists[key])
        ]
        self._budget.charge("words", len(words))
        if self._lists["command"]:
            return self._words(words, 0)
        if self._image_call is None:
            return Program(
                problem="there is no command, and what the image's entrypoint starts is not known",
                parsed=self._parsed,
            )
        virtual = [Word(value, value, value) for value in self._image_call.entrypoint]
        return self._words(virtual + words, len(virtual))

    def _words(self, words: Sequence[Word], virtual: int) -> Program:
        """`virtual`: how many of the words are the image's entrypoint."""
        found = exec_form.outcome(words)
        image, parsed = self._image_call, self._parsed
        match found:
            case exec_form.EngineStart():
                entrypoint = "image" if virtual and found.at <= virtual else found.start.entrypoint
                call = EngineCall(
                    found.start.engine,
                    entrypoint,
                    tuple(words[found.at :]),
                    positional_model=found.start.positional_model,
                    before=tuple(words[: found.at]),
                )
                return Program((self._with_end(call),), parsed=parsed)
            case exec_form.Shell():
                return self._script(words, found)
            case exec_form.OtherStack():
                return Program(other_stack=found.label, parsed=parsed)
            case exec_form.UnreadCommand() if virtual and image and image.engine:
                # The table vouches for the entrypoint: it hands its arguments to the engine.
                before, own = tuple(words[:virtual]), tuple(words[virtual:])
                call = EngineCall(image.engine, "image", own, before=before)
                return Program((self._with_end(call),), parsed=parsed)
            case exec_form.UnreadCommand(visible=None):
                return Program(problem=found.why, parsed=parsed)
            case exec_form.UnreadCommand(visible=exec_form.EngineStart() as visible):
                call = EngineCall(
                    visible.start.engine,
                    visible.start.entrypoint,
                    tuple(words[visible.at :]),
                    closed=wrapper_reason(found.why),
                    positional_model=visible.start.positional_model,
                    before=tuple(words[: visible.at]),
                )
                return Program((call,), parsed=parsed)
        return Program(inert=True, parsed=parsed)

    def _with_end(self, call: EngineCall) -> EngineCall:
        """Words are appended before a bare `--`, else at the end of the list in use."""
        if literal := literal_opt_in(call.words):
            return replace(call, closed=literal)
        for index, word in enumerate(call.words):
            if word.value == "--" and isinstance(word.place, ListPlace):
                slot = ListSlot(word.place.key, word.place.index, index)
                return replace(call, slot=slot)
        for key in reversed(KEYS):
            if self._lists[key]:
                slot = ListSlot(key, len(self._lists[key]), len(call.words))
                return replace(call, slot=slot)
        return replace(
            call,
            closed="there is neither command nor args: setting args would replace the image's own "
            "default arguments; write the engine's arguments into args",
        )

    def _script(self, words: Sequence[Word], found: exec_form.Shell) -> Program:
        place = words[found.at].place
        if not isinstance(place, ListPlace):
            return Program(problem="the script is the image's own", parsed=self._parsed)
        raw = self._lists[place.key][place.index]
        scripts = commands.Reader(self._budget, self._trees)
        made = scripts.read(
            kubernetes.expand(raw, self._env, self._budget),
            Holder(place),
            positional(words[found.at + 1 :]),
            masks(words[: found.at], ())(self._env.literal.get),
        )
        calls, starts, unread, other_stack = [], [], [], []
        for command in made:
            self._budget.step(1 + len(command.words))
            call = script_call(command)
            if call is not None:
                starts.append(command)
                calls.append(replace(call, before=(*words[: found.at], *call.before)))
            elif isinstance(command.outcome, exec_form.OtherStack):
                other_stack.append(command.outcome.label)
            elif isinstance(command.outcome, exec_form.UnreadCommand):
                unread.append(command.outcome.why)
            elif isinstance(command.outcome, exec_form.Shell) or (
                isinstance(command.outcome, exec_form.Evaluated)
                and command.outcome.at < len(command.words)
            ):
                unread.append("a script that it runs is not known here")
        errors = [script.error for script in scripts.scripts if script.error]
        loose = [script.loose for script in scripts.scripts if script.loose]
        unread = [*errors, *unread, *loose]
        parsed = replace(self._parsed, scripts=tuple(scripts.scripts), unread=tuple(unread))
        calls = _closed(calls, _redefined(made, scripts.scripts))
        if calls:
            at_once = jobs.at_once(starts, scripts.scripts, self._budget)
            ended_by = _ended_by(starts[0])
            return Program(tuple(calls), at_once=at_once, ended_by=ended_by, parsed=parsed)
        if other_stack:
            return Program(other_stack=other_stack[0], parsed=parsed)
        if unread:
            return Program(problem=unread[0], parsed=parsed)
        return Program(inert=True, parsed=parsed)


def _ended_by(start: commands.Command) -> str:
    """Return the command that ends a script, or one around it, before it starts an engine."""
    script: Script | None = start.script
    node: Node | None = start.node
    while script is not None and node is not None:
        if found := script.ended_by(node):
            return shown(found)
        holder = script.holder
        script, node = holder.script, holder.at
    return ""


def _redefined(made: Sequence[commands.Command], scripts: Sequence[Script]) -> str:
    """Return that a command of any script makes others mean something else, "" for none.

    An alias that an `eval` defines, or a command whose name is a variable's, is one of the script
    around it too.
    """
    inner = (script.redefined for script in scripts if not script.tree.broken)
    ran = (redefines([word.value or "" for word in command.words]) for command in made)
    return next(filter(None, (*inner, *ran, *map(_may_alias, made))), "")


def _may_alias(command: commands.Command) -> str:
    """Return that a command whose name is not known may define an alias (`$X vllm=...`)."""
    hides = isinstance(command.outcome, exec_form.UnreadCommand) and not command.outcome.visible
    name, *rest = command.words or (Word(""),)
    if not hides or name.value is not None or not any(_DEFINES.match(w.prefix) for w in rest):
        return ""
    return f"{shown(name.text)} may define an alias"


def _closed(calls: Sequence[EngineCall], why: str) -> list[EngineCall]:
    reason = f"{why}: simplify the script, or {OPT_IN_HINT}"
    return [replace(call, closed=call.closed or (reason if why else "")) for call in calls]


def item_word(raw: str, place: ListPlace, env: kubernetes.Env, budget: Budget) -> Word:
    """One item of an argv: exactly one word, whatever Kubernetes puts into it."""
    what = f"{place.key}[{place.index}]"
    if "$" not in raw:
        kubernetes.charge(raw, budget, what)
        return Word(raw, raw, raw, place=place)
    made = kubernetes.expand(raw, env, budget, what)
    origin = ""
    inserted = next((run for run in made.runs if run.fixed), None)
    if inserted is not None:
        written = raw.encode()[inserted.first : inserted.last]
        origin = written.decode("utf-8", "replace")
    if not made.opaque:
        value = made.decode()
        return Word(value, raw, value, origin=origin, place=place)
    prefix = made.data[: made.opaque[0].start].decode("utf-8", "replace")
    return Word(None, raw, prefix, origin=origin, place=place)
