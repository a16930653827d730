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
from threading import Event

# Linux: MAX_ARG_STRLEN, 32 pages with the final NUL. No program starts with a longer argument, nor
# with a longer variable.
ARGUMENT_BYTES = 128 * 1024 - 1

# Shells that start shells, or eval, in one another.
SHELLS_DEEP = 8


@dataclass(frozen=True)
class Limit:
    """One limit: `most` for one container, `call` for all containers of a call.

    `what` is counted. `fix`: what the user can do. `why`: the reason, for docs/commands.md.
    """

    most: int
    call: int
    what: str
    fix: str
    why: str


_SHORTEN = "shorten it, or move what is not the engine's start into an init container or an image"
_WRITE_OUT = "write the engine's flags out where it is started"

LIMITS = {
    "given": Limit(
        2 * 1024 * 1024,
        4 * 1024 * 1024,
        "bytes of command, args and env",
        "Linux starts no program with more; shorten them",
        "Linux gives a program a quarter of its stack for arguments and environment; the stack has "
        "8 MiB where nobody says otherwise.",
    ),
    "scripts": Limit(
        64 * 1024,
        256 * 1024,
        "bytes of shell scripts, those in them included",
        _SHORTEN,
        "A script that the grammar (tree-sitter-bash) can hardly read takes up to 17 us a byte: a "
        "second. The longest launcher that was found, KServe's, has 9 KiB.",
    ),
    "operators": Limit(
        1000,
        4000,
        "of the characters | < > ( ` in shell scripts",
        _SHORTEN,
        "Where a script can be read in several ways, the grammar's time grows with the square of "
        "these: 0.2 s for 1,000, in the worst order that was found. KServe's launcher has 46.",
    ),
    "grammar": Limit(
        6000,
        12_000,
        "steps of the shell grammar",
        f"correct its syntax, or {_SHORTEN}",
        "Where a script cannot be read, the grammar goes over the rest of it at every word. A "
        "script without errors takes at most 60 steps for a kilobyte.",
    ),
    "expanded": Limit(
        16 * 1024,
        64 * 1024,
        "bytes put into words by variables",
        _WRITE_OUT,
        "A script of 100 bytes can double a variable until no memory holds it; so can an env. "
        "The scripts of the corpus need 96 bytes at most.",
    ),
    "words": Limit(
        20_000,
        60_000,
        "words of commands, those out of variables included",
        _WRITE_OUT,
        "A word of a script can stand for a thousand arguments. Engines know some 400 flags.",
    ),
    "steps": Limit(
        200_000,
        600_000,
        "steps",
        _SHORTEN,
        "Of all the rest, under half a second's work: `${9999}` is found by going over 9,998 "
        "arguments.",
    ),
}


class OverBudget(Exception):
    """A limit was met: the text says which, and what to do."""


class CallSpent(Exception):
    """A limit of the whole call was met: the text says which, and what to do."""


class Cancelled(BaseException):
    """The client has gone: nobody waits for the answer. No handler of errors may keep it."""


class CallBudget:
    """The work done for all containers of one call. `counted`: {name of a limit: how much}."""

    def __init__(self, cancelled: Event | None = None) -> None:
        """Start a budget; `cancelled` is set when the client has gone."""
        self.counted: dict[str, int] = {}
        self._cancelled = cancelled or Event()

    def charge(self, name: str, amount: int) -> None:
        """Count work. Raise CallSpent at a limit, Cancelled when the client has gone."""
        if self._cancelled.is_set():
            raise Cancelled
        used = self.counted.get(name, 0) + amount
        self.counted[name] = used
        limit = LIMITS[name]
        if used > limit.call:
            raise CallSpent(
                f"reading all commands of this composite needs more than {limit.call:,} "
                f"{limit.what}: split the composite, or shorten the scripts and env of its pods"
            )

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
    begun = _call.set(made := CallBudget(cancelled))
    try:
        yield made
    finally:
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
