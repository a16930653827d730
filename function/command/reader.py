"""A container's argv, read: the engine calls it makes, or why that is not known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from function.command import exec_form, kubernetes
from function.command.model import EngineCall, ImageCall, Program, Word
from function.command.reading import KEYS, ListPlace, ListSlot, Reading


def read(container: Mapping[str, Any], image_call: ImageCall | None = None) -> Program:
    """What `container` (core/v1 Container: command, args, env) runs. Never raises.

    `image_call`: what the image's own entrypoint starts, for a container without `command`; None
    when nothing tells.
    """
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
    reading = Reading(container, image_call, kubernetes.read_env(container), lists)
    words = [
        item_word(raw, ListPlace(key, index), reading.env)
        for key in KEYS
        for index, raw in enumerate(lists[key])
    ]
    if lists["command"]:
        return _program(reading, words, 0)
    if image_call is None:
        return Program(
            problem="there is no command, and what the image's entrypoint starts is not known: "
            "add the image to engineImages, or set command",
            reading=reading,
        )
    virtual = [Word(value, value, value) for value in image_call.entrypoint]
    return _program(reading, virtual + words, len(virtual))


def item_word(raw: str, place: ListPlace, env: kubernetes.Env) -> Word:
    """One item of an argv: exactly one word, whatever Kubernetes puts into it."""
    if "$" not in raw:
        return Word(raw, raw, raw, place=place)
    text = kubernetes.expand(raw, env)
    origin = ""
    if any(text.is_fixed):
        at = text.is_fixed.index(True)
        written = raw.encode()[text.starts[at] : text.ends[at]]
        origin = written.decode("utf-8", "replace")
    if not text.opaque:
        value = text.decode()
        return Word(value, raw, value, origin=origin, place=place)
    prefix = text.data[: text.opaque[0].start].decode("utf-8", "replace")
    return Word(None, raw, prefix, origin=origin, place=place)


def _program(reading: Reading, words: Sequence[Word], virtual: int) -> Program:
    """`virtual`: how many of the words are the image's entrypoint."""
    found = exec_form.outcome(words)
    image = reading.image_call
    match found:
        case exec_form.Engine():
            entrypoint = "image" if virtual and found.at <= virtual else found.start.entrypoint
            call = EngineCall(
                found.start.engine,
                entrypoint,
                tuple(words[found.at :]),
                positional_model=found.start.positional_model,
            )
            return Program((_with_end(call, reading),), reading=reading)
        case exec_form.Shell():
            return _script_program(reading, words, found)
        case exec_form.Foreign():
            return Program(foreign=found.label, reading=reading)
        case exec_form.Opaque() if virtual and image and image.engine:
            # The table vouches for the entrypoint: it hands its arguments to the engine.
            call = EngineCall(image.engine, "image", tuple(words[virtual:]))
            return Program((_with_end(call, reading),), reading=reading)
        case exec_form.Opaque(visible=None):
            return Program(problem=found.why, reading=reading)
        case exec_form.Opaque():
            from function.command.calls import wrapper_reason

            start, at = found.visible.start, found.visible.at
            call = EngineCall(
                start.engine,
                start.entrypoint,
                tuple(words[at:]),
                closed=wrapper_reason(found.why),
                positional_model=start.positional_model,
            )
            return Program((call,), reading=reading)
    return Program(inert=True, reading=reading)


def _with_end(call: EngineCall, reading: Reading) -> EngineCall:
    """Words are appended before a bare `--`, else at the end of the list in use."""
    for index, word in enumerate(call.words):
        if word.value == "--" and word.place:
            slot = ListSlot(word.place.key, word.place.index, index)
            return replace(call, slot=slot)
    for key in reversed(KEYS):
        if reading.lists[key]:
            slot = ListSlot(key, len(reading.lists[key]), len(call.words))
            return replace(call, slot=slot)
    return replace(
        call,
        closed="there is neither command nor args: setting args would replace the image's own "
        "default arguments; write the engine's arguments into args",
    )


def _script_program(reading: Reading, words: Sequence[Word], found: exec_form.Shell) -> Program:
    # Imported here: a process that meets no script does not pay for the grammar.
    from function.command.calls import script_call
    from function.command.shell.script import Holder, Script, commands, positional

    place = words[found.at].place
    if place is None:
        return Program(problem="the script is the image's own", reading=reading)
    text = kubernetes.expand(reading.lists[place.key][place.index], reading.env)
    top = Script(text, Holder(place), positional(words[found.at + 1 :]), reading.env)
    scripts, calls, problems, foreign = [top], [], [], []
    for command in commands(top):
        if not command.words:
            scripts.append(command.script)
            continue
        call = script_call(command)
        if call is not None:
            calls.append(call)
        elif isinstance(command.outcome, exec_form.Foreign):
            foreign.append(command.outcome.label)
        elif isinstance(command.outcome, exec_form.Opaque):
            problems.append(command.outcome.why)
        elif isinstance(command.outcome, exec_form.Shell):
            problems.append("a script that it runs is not known here")
    reading = replace(reading, scripts=tuple(scripts))
    problems = [script.error for script in scripts if script.error] + problems
    problems += [script.loose for script in scripts if script.loose]
    if calls:
        return Program(tuple(calls), unread=tuple(problems), reading=reading)
    if foreign:
        return Program(foreign=foreign[0], reading=reading)
    if problems:
        return Program(problem=problems[0], reading=reading)
    return Program(inert=True, reading=reading)
