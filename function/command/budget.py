"""What reading one container's command may cost: counted in steps, never clocked.

Commands come from strangers, and one of 200 bytes can ask for gigabytes. All that reads a command
charges what it does to one `Budget`; work is linear in what was read and in what variables were
expanded to, and both have limits. Whoever meets one gets a `Program` with a problem that names it.
"""

from dataclasses import dataclass, field

# Linux: MAX_ARG_STRLEN, 32 pages with the final NUL. No program starts with a longer argument, nor
# with a longer variable.
ARGUMENT_BYTES = 128 * 1024 - 1

# Shells that start shells, or eval, in one another.
SHELLS_DEEP = 8


@dataclass(frozen=True)
class Limit:
    """`most`: what is allowed. `what`: of what. `fix`: what the user can do about it. `why`: the
    reason for the number, for docs/commands.md."""

    most: int
    what: str
    fix: str
    why: str


_SHORTEN = "shorten it, or move what is not the engine's start into an init container or an image"
_WRITE_OUT = "write the engine's flags out where it is started"

LIMITS = {
    "given": Limit(
        2 * 1024 * 1024,
        "bytes of command, args and env, with $(VAR) expanded",
        "Linux starts no program with more; shorten them",
        "Linux gives a program a quarter of its stack for arguments and environment; the stack has "
        "8 MiB where nobody says otherwise.",
    ),
    "scripts": Limit(
        64 * 1024,
        "bytes of shell scripts, those in them included",
        _SHORTEN,
        "A script that the grammar (tree-sitter-bash) can hardly read takes up to 17 us a byte: a "
        "second. The longest launcher that was found, KServe's, has 9 KiB.",
    ),
    "operators": Limit(
        1000,
        "of the characters | < > ( ` in shell scripts",
        _SHORTEN,
        "Where a script can be read in several ways, the grammar's time grows with the square of "
        "these: 0.2 s for 1,000, in the worst order that was found. KServe's launcher has 46.",
    ),
    "grammar": Limit(
        6000,
        "steps of the shell grammar",
        f"correct its syntax, or {_SHORTEN}",
        "Where a script cannot be read, the grammar goes over the rest of it at every word. A "
        "script without errors takes at most 60 steps for a kilobyte.",
    ),
    "expanded": Limit(
        512 * 1024,
        "bytes put into words by variables",
        _WRITE_OUT,
        "A script of 100 bytes can double a variable until no memory holds it.",
    ),
    "words": Limit(
        20_000,
        "words of commands, those out of variables included",
        _WRITE_OUT,
        "A word of a script can stand for a thousand arguments. Engines know some 400 flags.",
    ),
    "steps": Limit(
        500_000,
        "steps",
        _SHORTEN,
        "Of all the rest, about a second's work: `${9999}` is found by going over 9,998 arguments.",
    ),
}


class OverBudget(Exception):
    """A limit was met: the text says which, and what to do."""


@dataclass
class Budget:
    """The work done for one container. `counted`: {name of a limit: how much}. Raises OverBudget
    where a limit is met."""

    limits: dict[str, Limit] = field(default_factory=lambda: LIMITS)
    counted: dict[str, int] = field(default_factory=dict)

    def charge(self, name: str, amount: int = 1) -> None:
        used = self.counted.get(name, 0) + amount
        self.counted[name] = used
        limit = self.limits[name]
        if used > limit.most:
            raise OverBudget(
                f"reading the command needs more than {limit.most:,} {limit.what}: {limit.fix}"
            )

    def step(self, amount: int = 1) -> None:
        self.charge("steps", amount)

    def argument(self, size: int, what: str) -> None:
        """Raises OverBudget where one argument or variable is longer than Linux takes."""
        if size > ARGUMENT_BYTES:
            raise OverBudget(
                f"{what} is longer than {ARGUMENT_BYTES:,} bytes: Linux starts no program with it"
            )

    def parse(self, data: bytes) -> None:
        """A script is about to be parsed."""
        self.charge("scripts", len(data))
        # An array's bracket (`A+=(...)`) opens nothing that is read in several ways.
        operators = sum(map(data.count, (b"|", b"<", b">", b"(", b"`"))) - data.count(b"=(")
        self.charge("operators", operators)
