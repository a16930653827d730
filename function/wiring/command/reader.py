"""A container's argv, read: the engine calls it makes, or why that is not known."""

from collections.abc import Mapping, Sequence
from typing import Any

from function.wiring.command import exec_form, kubernetes
from function.wiring.command.model import EngineCall, ImageCall, Program, Word
from function.wiring.command.reading import KEYS, ListPlace, ListSlot, Reading

OPT_IN_HINT = (
    "pass $KV_OFFLOAD_ARGS, unquoted, to the engine in your own script: it is set by env and needs "
    "no edit"
)


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
        if any("\0" in item for item in value):
            return Program(problem=f"{key} holds a NUL byte: it cannot be started")
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
        origin = raw.encode("utf-8", "surrogatepass")[text.starts[at] : text.ends[at]].decode()
    if not text.opaque:
        value = text.decode()
        return Word(value, raw, value, origin=origin, place=place)
    prefix = text.data[: text.opaque[0].start].decode("utf-8", "surrogatepass")
    return Word(None, raw, prefix, origin=origin, place=place)


def _program(reading: Reading, words: Sequence[Word], virtual: int) -> Program:
    found = exec_form.outcome(words)
    image = reading.image_call
    if isinstance(found, exec_form.Engine):
        call = exec_call(
            found, words, reading, "image" if virtual > 0 and found.at <= virtual else ""
        )
        return Program((call,), reading=reading)
    if isinstance(found, exec_form.Foreign):
        return Program(foreign=found.label, reading=reading)
    if isinstance(found, exec_form.Shell):
        return Program(problem="scripts are not read yet", reading=reading)
    if isinstance(found, exec_form.Opaque) and virtual and image and image.engine:
        # The table vouches for the entrypoint: it hands its arguments to the engine.
        own = tuple(words[virtual:])
        return Program(
            (EngineCall(image.engine, "image", own, **_ends(own, reading)),), reading=reading
        )
    if isinstance(found, exec_form.Opaque):
        if found.visible:
            closed = (
                f"{found.why}: whether it passes its arguments on unchanged cannot be proven. "
                "Start the engine directly in command, or, if the program is yours, "
                f"{OPT_IN_HINT}"
            )
            call = exec_call(found.visible, words, reading, closed=closed)
            return Program((call,), reading=reading)
        return Program(problem=found.why, reading=reading)
    return Program(inert=True, reading=reading)


def exec_call(
    found: exec_form.Engine,
    words: Sequence[Word],
    reading: Reading,
    entrypoint: str = "",
    closed: str = "",
) -> EngineCall:
    """The call of an engine whose words are items of command and args."""
    own = tuple(words[found.at :])
    ends = _ends(own, reading)
    return EngineCall(
        engine=found.start.engine,
        entrypoint=entrypoint or found.start.entrypoint,
        words=own,
        positional_model=found.start.positional_model,
        slot=ends["slot"],
        closed=closed or ends["closed"],
    )


def _ends(own: Sequence[Word], reading: Reading) -> dict[str, Any]:
    """Where words are appended: before a bare `--`, else at the end of the list in use."""
    bare = next((word.place for word in own if word.value == "--" and word.place), None)
    if bare is not None:
        return {"slot": ListSlot(bare.key, bare.index), "closed": ""}
    for key in reversed(KEYS):
        if reading.lists[key]:
            return {"slot": ListSlot(key, len(reading.lists[key])), "closed": ""}
    return {
        "slot": None,
        "closed": "there is neither command nor args: setting args would replace the image's own "
        "default arguments; write the engine's arguments into args",
    }
