"""Parse the step's Input, once for the same bytes."""

from typing import Any

from function.api.base import parse
from function.api.input import Input
from function.edge.memo import ENTRY_BYTES, Cache, size_of
from function.edge.request import Call
from function.edge.structs import encode


class BadInput(ValueError):
    """The step's Input is broken: the one thing that is fatal in anyone's pipeline."""


# A few hundred Inputs of some 20 KiB: one Composition's step has one.
_parsed: Cache[bytes, Input] = Cache(8 * 1024 * 1024)


def read_input(call: Call) -> Input:
    """Return the Input with its defaults. Raise BadInput with all of its problems."""
    if not call.input:
        return _DEFAULT
    key = encode(call.input)
    found = _parsed.get(key)
    if found is None:
        found = _parse(call.input)
        _parsed.put(key, found, len(key) + size_of(found, _parsed.limit) + ENTRY_BYTES)
    return found


def _parse(document: dict[str, Any]) -> Input:
    parsed, problems = parse(Input, document, "input")
    if parsed is None or problems:
        raise BadInput(
            "the pipeline step's input is not valid; nothing was changed: "
            + "; ".join(str(p) for p in sorted(problems))
        )
    return parsed


_DEFAULT = Input.model_construct()
