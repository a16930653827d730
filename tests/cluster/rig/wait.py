"""Waiting with a limit, and with words for what did not happen.

Limits are those of a machine with nothing else to do; RIG_PATIENCE=3 trebles them for a busy one.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = float(os.environ.get("RIG_PATIENCE", "1"))


class NotInTime(AssertionError):
    """Something did not happen within its limit."""


def until(
    probe: Callable[[], T],
    what: str,
    limit: float = 30,
    every: float = 0.1,
    meanwhile: Callable[[], object] = lambda: None,
    explain: Callable[[], str] = lambda: "",
) -> T:
    """The first truthy answer of `probe`; `explain` is asked for details when time runs out."""
    limit *= PATIENCE
    deadline = time.monotonic() + limit
    while True:
        try:
            answer = probe()
        except (OSError, ConnectionError) as error:
            answer, trouble = None, f": {error}"
        else:
            trouble = ""
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {limit:.0f} s: {what}{trouble}\n{explain()}".rstrip())
        meanwhile()
        time.sleep(every)
