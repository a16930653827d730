"""One good and one bad document for every CEL rule of a NIXL tier; see rules.py.

They are those of the unit tests, each laid into a whole tier.
"""

from collections.abc import Callable, Iterator
from typing import Any

from function.api import nixl
from function.api.backends import SPECS
from function.api.tier import KVOffloadTierSpec
from tests.unit.api.nixl_rules import ROWS

Fragment = dict[str, Any]
Place = tuple[type, str, Callable[[Fragment], Fragment]]


def _settings(spec: Fragment) -> Fragment:
    return {key: value for key, value in spec.items() if key not in ("inferenceClusterRef", "name")}


def _nixl(settings: Fragment) -> Fragment:
    return {"backend": "NIXL", "nixl": settings}


_PLACES: dict[str, Place] = {
    "KVOffloadTierSpec": (KVOffloadTierSpec, "", _settings),
    "NIXLSpec": (nixl.NIXLSpec, "nixl", _nixl),
    "NIXLBucket": (
        nixl.NIXLBucket,
        "nixl.preflight.bucket",
        lambda bucket: _nixl({"preflight": {"bucket": bucket}}),
    ),
    "NIXLPorts": (nixl.NIXLPorts, "nixl.ports", lambda ports: _nixl({"ports": ports})),
}


def documents() -> Iterator[tuple[str, str, Fragment, Fragment]]:
    """Path below the spec, message, and the settings of a good and of a bad tier."""
    assert SPECS["NIXL"] is nixl.NIXLSpec
    for name, words, good, bad in ROWS:
        if name in _PLACES:  # an inline tier has the rules of any tier
            model, path, whole = _PLACES[name]
            message = next(r.message for r in model.rules if words in r.message)  # type: ignore[attr-defined]
            yield path, message, whole(good[0]), whole(bad[0])
