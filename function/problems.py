"""What is wrong with an input: a list of problems, each with its path and what to do about it.

A `Problem` is for documents of our own kinds (a tier, a deployment, an Input): all of them are
reported at once. A `Refused` is for a consumer's pod: wiring stops, the pod is left as it was, and
the reason is one of the closed list in `function.reasons`.
"""

from dataclasses import dataclass

from function.reasons import Reason


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

    def __init__(self, reason: Reason | str, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.reason = Reason(reason)
        self.message = message
        self.path = path
