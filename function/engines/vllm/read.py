"""vLLM's flags as vLLM 0.33 itself would read them.

Its parser turns underscores into dashes up to the first dot, lets `--flag.a.b V` build an object,
and appends all such objects at the end of the command line: a dotted key beats every JSON value
and drops its other fields. `tests/conformance` runs the same words through the real parser.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from function.command import kubernetes
from function.command.model import EngineCall, Word
from function.engines import config_file, json_text
from function.engines.scan import Scan, Use, opposite, scan
from function.engines.vllm.flags import TABLE
from function.kube.access import Json
from function.problems import Refused
from function.reasons import Reason

KV_TRANSFER = "--kv-transfer-config"
KV_EVENTS = "--kv-events-config"
# They silently overwrite kv_connector and kv_role of any --kv-transfer-config.
KV_OFFLOADING = ("--kv-offloading-size", "--kv-offloading-backend")


_DISABLED = ("", "None")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_BARE = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
# So many digits no number of an engine has; more would cost their square, or be infinite.
_DIGITS = 100
# Nor does a dotted key name so many objects in one another.
_DEEPEST = 64
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Setting:
    """A JSON-valued flag: its effective `value` (None: absent or disabled) and all its uses."""

    value: Json | None
    uses: tuple[Use, ...] = ()


def normalise(spelling: str) -> str:
    """`--kv_transfer_config.a_b` -> `--kv-transfer-config.a_b`: dashes up to the first dot."""
    if not spelling.startswith("--"):
        return spelling
    head, dot, rest = spelling.partition(".")
    return head.replace("_", "-") + dot + rest


def read(call: EngineCall) -> Scan:
    """Return the uses of flags in `call`, first those of its `--config` file if it is known."""
    own = scan(call.words, TABLE, normalise, True, model_first=call.positional_model)
    return config_file.before(call, own, lambda words: scan(words, TABLE, normalise, True))


def effective(call: EngineCall) -> dict[str, str | None]:
    """Return the effective flags by canonical name; None for a switch and the unknown.

    Of `--x` and `--no-x` the last one stands; `--disable-x` of an `--enable-x` is `--no-enable-x`.
    A JSON flag that was given dotted, and --kv-transfer-config in any spelling, is the effective
    object as compact JSON, and absent when it is disabled. `--model` is the model, wherever it is
    written.
    """
    scanned = read(call)
    flags: dict[str, str | None] = {}
    for use in scanned.uses:
        if not use.path:
            for name in (use.name, opposite(use.name)):
                flags.pop(name, None)
            flags[use.name] = use.raw
    for name in sorted({use.name for use in scanned.uses if use.path} | {KV_TRANSFER, KV_EVENTS}):
        try:
            value = setting(scanned, name)
        except Refused:
            flags[name] = None
            continue
        flags.pop(name, None)
        if value.value is not None:
            flags[name] = dumps(value.value)
    named = any(use.words for use in scanned.of("--model"))  # else it stands in the file at most
    if call.positional_model and not named and scanned.positionals:
        flags["--model"] = scanned.positionals[0]
    return flags


def setting(scanned: Scan, name: str, words: Sequence[Word] = ()) -> Setting:
    """Return the effective value of a JSON-valued flag. Raise Refused if it cannot be read.

    With `words` (the call's), strings are as Kubernetes is given them: a `$(POD_IP)` stays, a
    literal one is escaped. Without, they are as the engine gets them.
    """
    uses = tuple(scanned.of(name))
    dotted: dict[str, Json] = {}
    for use in uses:
        if use.path:
            _put(dotted.setdefault(use.spelling, {}), use, name)
    if dotted:
        # The objects are appended in the order in which each spelling first came up.
        return Setting(_escaped(dotted[list(dotted)[-1]], words), uses)
    if not uses:
        return Setting(None)
    last = uses[-1]
    unexpanded = _unexpanded(last, words)
    if unexpanded is not None:
        return Setting(unexpanded, uses)
    return Setting(_escaped(_object(last, name), words), uses)


def dumps(value: Any) -> str:
    """Compact, sorted, ASCII: the one form in which JSON is written into arguments."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def ignored_config(call: EngineCall) -> bool:
    """Whether `--config=FILE` stands there."""
    return any((word.value or "").startswith("--config=") for word in call.words)


def _unexpanded(use: Use, words: Sequence[Word]) -> Json | None:
    """Return the object before Kubernetes expands a $(VAR) inside one of its strings."""
    if not use.words or use.words[-1] >= len(words):
        return None
    word = words[use.words[-1]]
    if "$(" not in word.text or not (word.value is None or word.origin.startswith("$(")):
        return None
    text = word.text.partition("=")[2] if len(use.words) == 1 else word.text
    try:
        return _parse(text)
    except ValueError:
        return None


def _object(use: Use, name: str) -> Json | None:
    if use.raw is None:
        what = "has no value" if use.static else "has a value that is known only at run time"
        raise Refused(
            Reason.ARGS_NOT_PATCHABLE, f"{name} {what}; write the JSON itself as the flag's value"
        )
    if use.raw in _DISABLED:
        return None
    try:
        return _parse(use.raw)
    except ValueError:
        raise Refused(
            Reason.ARGS_NOT_PATCHABLE,
            f"the value of {name} is no JSON object, and vLLM stops on it: {_shorten(use.raw)}",
        ) from None


def _parse(text: str) -> Json:
    value = json_text.loads(_plain_numbers(text), parse_constant=_no_constant)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _escaped(value: Any, words: Sequence[Word]) -> Any:
    if not words:
        return value
    if isinstance(value, str):
        return kubernetes.escape(value)
    if isinstance(value, dict):
        return {key: _escaped(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item, words) for item in value]
    return value


def _put(into: Json, use: Use, name: str) -> None:
    if use.raw is None:
        raise Refused(
            Reason.ARGS_NOT_PATCHABLE,
            f"{name}.{use.path} has no value that can be read; write it out, or give the whole "
            f"object as {name} JSON",
        )
    path, text = use.path, use.raw
    if path.count(".") > _DEEPEST:
        raise Refused(
            Reason.ARGS_NOT_PATCHABLE, f"{name}: {_shorten(path)} nests too deep to be read"
        )
    value: Any
    if path.endswith("+"):
        path, value = path[:-1], text.split(",")
    else:
        value = _dotted_value(text)
    *parents, leaf = path.split(".")
    update: Json = {leaf: value}
    for key in reversed(parents):
        update = {key: update}
    _update(into, update)


def _update(original: Json, update: Json) -> None:
    for key, value in update.items():
        old = original.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _update(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            original[key] = old + value
        else:
            original[key] = value


def _dotted_value(text: str) -> Any:
    try:
        return json_text.loads(text)
    except ValueError:
        pass
    number = _human(text.strip())
    if number is not None:
        return number
    try:
        return int(text)
    except ValueError:
        return text


def _human(text: str) -> int | None:
    match = _HUMAN.fullmatch(text)
    if not match:
        return None
    number, suffix = match.groups()
    if len(number) > _DIGITS:
        return None
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    return None if "." in number else int(number) * _BINARY[suffix]


def _plain_numbers(text: str) -> str:
    """VLLM takes `80g` and `4K` as numbers in JSON, outside of strings."""
    parts = json_text.STRINGS.split(text)
    for i in range(0, len(parts), 2):
        parts[i] = _BARE.sub(lambda m: str(_human(m.group()) or m.group()), parts[i])
    return "".join(parts)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _shorten(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
