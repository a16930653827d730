"""Parse the step's Input, once for the same bytes."""

from cachetools import LRUCache, cached

from function.api.base import parse
from function.api.input import Input
from function.edge.request import Call
from function.kube.naming import digest


class BadInput(ValueError):
    """The step's Input is broken: the one thing that is fatal in anyone's pipeline."""


def read_input(call: Call) -> Input:
    """Return the Input with its defaults. Raise BadInput with all of its problems."""
    return _parse(repr(call.input), call) if call.input else _DEFAULT


@cached(LRUCache(64), key=lambda text, _: digest(text, length=64))
def _parse(_: str, call: Call) -> Input:
    parsed, problems = parse(Input, call.input, "input")
    if parsed is None or problems:
        raise BadInput(
            "the pipeline step's input is not valid; nothing was changed: "
            + "; ".join(str(p) for p in sorted(problems))
        )
    return parsed


_DEFAULT = Input()
