"""The list of reasons is closed and complete, and the code uses every reason."""

import re
from pathlib import Path

import function
from function.reasons import Reason
from kv_offload.docs.reasons import REASONS

_SOURCES = Path(function.__file__).parent
_SAID = re.compile(r"\bReason\.([A-Z_]+)")


def test_every_reason_is_documented_and_used() -> None:
    """A reason that no code gives would be documentation of nothing."""
    texts = [p.read_text() for p in sorted(_SOURCES.rglob("*.py")) if p.name != "reasons.py"]
    said = {Reason[name] for text in texts for name in _SAID.findall(text)}
    assert said == set(Reason) == set(REASONS)
