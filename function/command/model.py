"""The words of an engine's command line, wherever they stand, and the edits that change them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from function.command.places import Place, Slot

# The variable that a user's own script may pass, unquoted, to an engine.
OPT_IN = "KV_OFFLOAD_ARGS"


@dataclass(frozen=True)
class ImageCall:
    """What an image's own entrypoint starts when a container sets no `command`.

    `engine`: "vLLM" or "SGLang". `entrypoint`: the image's ENTRYPOINT, word by word
    (("vllm", "serve")). An entrypoint that names an engine is read like any command line; one that
    does not is trusted to hand its arguments to `engine`. `engine` "" is for images that start
    whatever their arguments name.
    """

    engine: str = ""
    entrypoint: tuple[str, ...] = ()


@dataclass(frozen=True)
class Word:
    """One word of a command line. `value` is None where it is not static (an expansion).

    `text`: the word as written. `prefix`: the static part that it begins with
    (`--flag=` of `--flag=$X`); equal to `value` for a static word. `many`: an expansion that may
    give no word, or several. `origin`: where the value comes from when it is not written in place
    ("env VLLM_ADDITIONAL_ARGS", "$(POD_IP)"); such a word cannot be replaced or deleted here.
    `unset`: the variables of a script whose unknown values decide it, with their lines. `fixes`:
    what else to change in the script so that it can be read, as imperatives.
    """

    value: str | None
    text: str = ""
    prefix: str = ""
    many: bool = False
    origin: str = ""
    unset: tuple[str, ...] = field(default=(), compare=False, repr=False)
    fixes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    # Where it stands: an item of command/args, or a node of a script. For edit.py only.
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Replace:
    """Word `index` of the call becomes `value`.

    `expand`: Kubernetes may expand `$(VAR)` in the value; without it the value arrives as it is.
    """

    index: int
    value: str
    expand: bool = False


@dataclass(frozen=True)
class Delete:
    """Word `index` of the call goes."""

    index: int


@dataclass(frozen=True)
class Append:
    """Append a word to the call's own words; several keep their order. `expand`: see Replace.

    It goes before a bare `--`, an unknown `"$@"` or a redirection.
    """

    value: str
    expand: bool = False


Edit = Replace | Delete | Append


@dataclass(frozen=True)
class ConfigFile:
    """What an engine reads from `--config FILE`, as words before its own.

    `problem`: why that is not known.
    """

    words: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class EngineCall:
    """One start of an engine.

    `engine`: "vLLM" or "SGLang". `entrypoint`: how it is started, as plain words ("vllm serve",
    "python3 -m sglang.launch_server", or "image" when the image's entrypoint starts it). `words`:
    the engine's own arguments after the entrypoint. `positional_model`: the first of them is the
    model unless it begins with a dash (`vllm serve`); elsewhere a positional model is ignored.
    `opted_in`: the script passes `$KV_OFFLOAD_ARGS` unquoted to this call: args go by env; the
    variable itself is not among the words.
    `closed`: why appending here can have no effect or cannot be proven, "" when it can.
    """

    engine: str
    entrypoint: str
    words: tuple[Word, ...]
    opted_in: bool = False
    closed: str = ""
    positional_model: bool = False
    # A shell makes its words: it expands `$KV_OFFLOAD_ARGS`, which is a plain word elsewhere.
    scripted: bool = False
    # Of `--config FILE`: who knows the pod's volumes says it.
    config: ConfigFile | None = None
    # `$KV_OFFLOAD_ARGS` stands in the text of an `eval`: a shell parses its value once more.
    evaluated: bool = field(default=False, repr=False)
    # The words that start it, those of runners and a shell around it included, and `A=1` in front.
    before: tuple[Word, ...] = field(default=(), compare=False, repr=False)
    # Where appended words go (edit.py).
    slot: Slot | None = field(default=None, compare=False, repr=False)


def values_wanted(words: Sequence[Word]) -> str:
    """Return what to do so that unknown words of a script can be read; "" where nothing helps."""
    found = list(dict.fromkeys(fix for word in words for fix in word.fixes))
    if names := list(dict.fromkeys(name for word in words for name in word.unset)):
        found.append(
            f"give {in_order(names)} a value in the container's env (a default is not read)"
        )
    return in_order(found) if found else ""


def in_order(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def shown(text: str, most: int = 120) -> str:
    """Return a user's text cut for messages: a condition holds 32 KiB, a word may have 128."""
    return text if len(text) <= most else f"{text[: most - 20]}... ({len(text):,} characters)"
