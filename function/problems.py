"""What is wrong with an input: a list of problems, each with its path and what to do about it.

A `Problem` is for documents of our own kinds (a tier, a deployment, an Input): all of them are
reported at once. A `Refused` is for a consumer's pod: wiring stops, the pod is left as it was, and
the reason is one of the closed list in `function.reasons`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from function.reasons import Reason
from function.redact import redacted

_PLAIN_KEY = re.compile(r"[A-Za-z_$][-\w$]*")


def field_path(steps: Iterable[str | int]) -> str:
    """`spec`, `l2`, 0, `disk` -> `spec.l2[0].disk`; keys that are no plain name are quoted."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f'["{step}"]'
    return path


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong at `path` (as the user wrote it, e.g. `spec.lmcache.l2[0].disk.sizeGiB`)."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class Refused(Exception):
    """A pod that cannot be wired, for one `reason` of the closed list.

    `message` says what stands in the way and what to change; `path` is the place in the user's
    document where it stands, when there is one place.
    """

    def __init__(self, reason: Reason, message: str, path: str = "") -> None:
        message = redacted(message)
        super().__init__(f"{path}: {message}" if path else message)
        self.reason = reason
        self.message = message
        self.path = path
