"""What reading commands may cost: counted in steps, never clocked.

Commands come from strangers, and one of 200 bytes can ask for gigabytes. All that reads a command
charges what it does to one `Budget`; work is linear in what was read and in what variables were
expanded to, and both have limits. Whoever meets one gets a `Program` with a problem that names it.

Every budget charges the `CallBudget` of the call under way too, which all containers share.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Semaphore

from function.facts import Table

# Linux: MAX_ARG_STRLEN, 32 pages with the final NUL. No program starts with a longer argument, nor
# with a longer variable.
ARGUMENT_BYTES = 128 * 1024 - 1

# Shells that start shells, or eval, in one another.
SHELLS_DEEP = 8

# Of the calls that have used this part of a limit, one goes on at a time: what is quick waits for
# one that computes, not for all.
_PART = 8
_LONG = Semaphore()
# Seconds between two looks whether the client is still there.
_LOOK = 1.0


@dataclass(frozen=True)
class Limit:
    """One limit: `most` for one container, `call` for all containers of a call.

    `what` is counted. `fix`: what the user can do. `why`: the reason.
    """

    name: str
    most: int
    call: int
    what: str
    fix: str
    why: str


LIMITS = {row.name: row for row in Table(Limit, Path(__file__).with_name("limits.yaml"), "limits")}


class OverBudget(Exception):
    """A limit was met: the text says which, and what to do."""


class CallSpent(Exception):
    """A limit of the whole call was met: the text says which, and what to do."""


class Cancelled(BaseException):
    """The client has gone: nobody waits for the answer. No handler of errors may keep it."""


class CallBudget:
    """The work done for all containers of one call. `counted`: {name of a limit: how much}."""

    def __init__(self, cancelled: Event | None = None, turns: Semaphore | None = None) -> None:
        """Start a budget; `cancelled` is set when the client has gone.

        `turns`: what long calls hold one after another, until `end()`.
        """
        self.counted: dict[str, int] = {}
        self._cancelled = cancelled or Event()
        self._turns = turns
        self._holds = False

    def end(self) -> None:
        """Let the next long call go on."""
        if self._holds and self._turns is not None:
            self._turns.release()
        self._turns = None

    def charge(self, name: str, amount: int) -> None:
        """Count work. Raise CallSpent at a limit, Cancelled when the client has gone."""
        if self._cancelled.is_set():
            raise Cancelled
        used = self.counted.get(name, 0) + amount
        self.counted[name] = used
        limit = LIMITS[name]
        if used * _PART > limit.call and self._turns is not None and not self._holds:
            self._wait(self._turns)
        if used > limit.call:
            raise CallSpent(
                f"reading all commands of this composite needs more than {limit.call:,} "
                f"{limit.what}: split the composite, or shorten the scripts and env of its pods"
            )

    def _wait(self, turns: Semaphore) -> None:
        while not turns.acquire(timeout=_LOOK):
            if self._cancelled.is_set():
                raise Cancelled
        self._holds = True

    def affords(self, counted: Mapping[str, int]) -> bool:
        """Return whether that much work more meets no limit."""
        return all(
            self.counted.get(name, 0) + amount <= LIMITS[name].call
            for name, amount in counted.items()
        )


_call: ContextVar[CallBudget | None] = ContextVar("call", default=None)


@contextmanager
def of_call(cancelled: Event | None = None) -> Iterator[CallBudget]:
    """Begin a call of this thread: what it reads inside is charged to one budget."""
    begun = _call.set(made := CallBudget(cancelled, _LONG))
    try:
        yield made
    finally:
        made.end()
        _call.reset(begun)


def current() -> CallBudget:
    """Return the budget of the call under way, a new one outside of calls."""
    return _call.get() or CallBudget()


@dataclass
class Budget:
    """The work done for one container. `counted`: {name of a limit: how much}.

    Raises OverBudget where a limit is met, and what the call's budget raises.
    """

    limits: dict[str, Limit] = field(default_factory=lambda: LIMITS)
    counted: dict[str, int] = field(default_factory=dict)
    call: CallBudget = field(default_factory=current)

    def charge(self, name: str, amount: int = 1) -> None:
        used = self.counted.get(name, 0) + amount
        self.counted[name] = used
        limit = self.limits[name]
        if used > limit.most:
            raise OverBudget(
                f"reading the command needs more than {limit.most:,} {limit.what}: {limit.fix}"
            )
        self.call.charge(name, amount)

    def step(self, amount: int = 1) -> None:
        self.charge("steps", amount)

    def argument(self, size: int, what: str) -> None:
        """Raise OverBudget where one argument or variable is longer than Linux takes."""
        if size > ARGUMENT_BYTES:
            raise OverBudget(
                f"{what} is longer than {ARGUMENT_BYTES:,} bytes: Linux starts no program with it"
            )

    def parse(self, data: bytes) -> None:
        """Charge a script that is about to be parsed."""
        self.charge("scripts", len(data))
        # An array's bracket (`A+=(...)`) opens nothing that is read in several ways.
        operators = sum(map(data.count, (b"|", b"<", b">", b"(", b"`"))) - data.count(b"=(")
        self.charge("operators", operators)
