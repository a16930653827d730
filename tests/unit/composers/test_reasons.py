"""The list of reasons is closed: nothing else may reach a consumer's condition."""

import re
from pathlib import Path

import function
from function.composers.consumer import composer as consumer
from function.composers.consumer import decision, identity_conflicts, lookup
from function.reasons import REASONS

_SOURCES = Path(function.__file__).parent
_REFUSED = re.compile(r'Refused\(\s*"([A-Za-z]+)"')


def test_every_reason_of_the_composers_is_listed() -> None:
    used = {
        getattr(module, name)
        for module in (consumer, decision, identity_conflicts)
        for name in dir(module)
        if name.startswith("REASON_") or name == "REASON"
    }
    states = {
        lookup.UNRESOLVED,
        lookup.NOT_FOUND,
        lookup.NOT_ALLOWED,
        lookup.MISMATCH,
        lookup.NOT_READY,
    }
    assert (used | states) - set(REASONS) == set()


def test_every_refusal_in_the_code_is_listed() -> None:
    said = {
        name
        for path in sorted(_SOURCES.rglob("*.py"))
        for name in _REFUSED.findall(path.read_text())
    }
    assert said
    assert said - set(REASONS) == set()
