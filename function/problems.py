"""What is wrong with an input: a list of problems, each with its path and what to do about it.

A `Problem` is for documents of our own kinds (a tier, a deployment, an Input): all of them are
reported at once. A `Refused` is for a consumer's pod: wiring stops, the pod is left as it was, and
the reason is one of the closed list in `function.reasons`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from function.reasons import Reason
from function.redact import redacted

# Of one refusal that stands for several: how many it says, and in how many characters.
_MOST, _ROOM = 8, 6000
# Characters of any message and path. A message quotes what strangers wrote: it is cut before it is
# searched for credentials, with room for those that are hidden, and after.
_SEARCHED, _LONGEST, _LONGEST_PATH = 32768, 8192, 1024
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
    document where it stands, when there is one place. `parts`: what `all_of` put together, itself
    alone for any other.
    """

    def __init__(self, reason: Reason, message: str, path: str = "") -> None:
        message = cut(redacted(message[:_SEARCHED]), _LONGEST)
        path = cut(path, _LONGEST_PATH)
        super().__init__(f"{path}: {message}" if path else message)
        self.reason = reason
        self.message = message
        self.path = path
        self._parts: tuple[Refused, ...] = ()

    @property
    def parts(self) -> "tuple[Refused, ...]":
        """Return what it was put together from; it refers to itself nowhere, so it is freed."""
        return self._parts or (self,)

    @classmethod
    def all_of(cls, refusals: Sequence["Refused"]) -> Self | "Refused":
        """One refusal that says them all, each once: the first one's reason, every message.

        A condition is read by people: what is long is cut, and so is what follows the eighth.
        """
        parts = list({str(part): part for refused in refusals for part in refused.parts}.values())
        if len(parts) == 1:
            return parts[0]
        shown = parts[:_MOST]
        room = _ROOM // len(shown)
        texts = [f"({i}) {cut(str(part), room)}" for i, part in enumerate(shown, 1)]
        more = f" And {len(parts) - len(shown)} more." if len(parts) > len(shown) else ""
        whole = cls(parts[0].reason, f"{len(parts)} problems: {' '.join(texts)}{more}")
        whole._parts = tuple(parts)
        return whole


def cut(text: str, room: int) -> str:
    """Return the text in at most `room` characters, with an ellipsis where it was longer."""
    return text if len(text) <= room else f"{text[: room - 3]}..."


def internal_error(bug: Exception) -> Refused:
    """Return the refusal for a bug of ours on one workload."""
    return Refused(
        Reason.INTERNAL_ERROR,
        f"The function has a bug on this workload ({type(bug).__name__}); its log has the"
        " traceback: please report it.",
    )
