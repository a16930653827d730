"""Who names an engine outside of its own folder: a closed list, held to the code.

A name is an identifier, or a text that is one word; sentences for people may name what they like.
"""

import re

from function.api.backends import SPECS, field_name
from function.api.engines import ENGINES
from tests.unit.house import test_backends as house

# Each with what it knows.
LISTED = {
    "function/api/engines.py": "the registry",
    "function/workloads/kserve.py": "what KServe's own presets start, and the variable they read",
    "kv_offload/docs/connectors.py": "the page of an engine's connectors and rules",
}
_NAMES = re.compile("|".join(map(re.escape, ENGINES)), re.IGNORECASE)


def _own(path: str) -> bool:
    """Return whether a file is an engine's own, or what a backend gives each engine."""
    fields = "|".join(map(field_name, SPECS))
    mine = rf"function/(engines/|backends/|api/({fields})(_\w+)?\.py$)"
    return bool(re.match(mine, path))


def test_no_other_file_names_an_engine() -> None:
    naming = {
        path
        for path, words in house.texts()
        if not _own(path) and any(_NAMES.search(w) and not re.search(r"\s", w) for w in words)
    }
    assert naming == set(LISTED)
