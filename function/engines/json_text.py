"""JSON in arguments: anyone's, so its nesting and its length must not cost more than they hold."""

import json
import re
from typing import Any

# No flag of an engine nests deeper; Python's parser, and all that walks what it gives, recurses.
_DEEPEST = 64
# A string that nothing ends goes up to the end: it is no JSON, and is read once.
STRINGS = re.compile(r'("(?:[^"\\]|\\.?)*+(?:"|\Z))')


def loads(text: str, **options: Any) -> Any:
    """As json.loads. Raises ValueError for what nests too deep too."""
    depth = 0
    for part in STRINGS.split(text)[::2]:
        for bracket in re.findall(r"[\[\]{}]", part):
            depth += 1 if bracket in "[{" else -1
            if depth > _DEEPEST:
                raise ValueError("it nests too deep")
    return json.loads(text, **options)
