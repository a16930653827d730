"""Work, counted: what a budget was charged, and how many calls Python made.

The second does not trust the first: whatever is done and not charged shows there.
"""

import sys
from collections.abc import Callable
from typing import Any

from function.command.budget import Budget

# Charges that are work each: the rest are sizes of what was given.
CHARGED = ("steps", "words", "expanded", "grammar")


def charged(budget: Budget) -> int:
    return sum(budget.counted.get(name, 0) for name in CHARGED)


def calls(run: Callable[[], Any]) -> int:
    """How many functions `run` calls, those written in C included."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
