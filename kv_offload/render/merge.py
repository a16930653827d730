"""Merge a composite with its spec, as `crossplane composition render -x` prints it."""

import copy
from collections.abc import Mapping
from typing import Any


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` overlaid by `over`: objects merge, everything else is replaced."""
    out = copy.deepcopy(dict(base))
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merged(out[key], value)
        else:
            out[key] = copy.deepcopy(value)
    return out
