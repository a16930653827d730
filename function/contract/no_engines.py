"""Programs and images that visibly start no engine.

Nobody who starts one of these is advised to declare an engine, and an engine declared on it is
refused. The rows are in function/facts/neighbours.yaml.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from function.contract.image_reference import ImageReference
from function.facts import Table


@dataclass(frozen=True)
class NoEngine:
    """A program that is no engine.

    `label`: with its article, for "starts {label}". `images`: ends of paths. `programs`: "name", or
    "name sub" where the program alone may be an engine. `modules`: with those below them.
    """

    label: str
    source: str
    images: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


NO_ENGINES = Table(NoEngine, "neighbours", "no_engines")

_PYTHON = ("python", "pypy")


def of_image(image: str) -> NoEngine | None:
    """Return the row of an image, by the end of its path."""
    rows, most = _rows_by_image()
    elements = ImageReference.parse(image).path.rsplit("/", most)[-most:]
    ends = ("/".join(elements[i:]) for i in range(len(elements)))
    found = [rows[end] for end in ends if end in rows]
    return NO_ENGINES[min(found)] if found else None


@cache
def _rows_by_image() -> tuple[dict[str, int], int]:
    """Return {end of a path: the first row that has it}, and the elements of the longest end."""
    rows = {name: i for i, row in reversed(list(enumerate(NO_ENGINES))) for name in row.images}
    return rows, 1 + max(name.count("/") for name in rows)


def of_argv(argv: Sequence[str]) -> NoEngine | None:
    """Return the row of a plain command line, e.g. `vllm bench serve`, `python3 -m lm_eval`.

    The caller has removed runners in front of the program (`tini --`, `env A=b`).
    """
    if not argv:
        return None
    program = argv[0].rpartition("/")[2]
    if program.startswith(_PYTHON):
        return _of_module(argv)
    subcommand = next((word for word in argv[1:] if not word.startswith("-")), "")
    for row in NO_ENGINES:
        if program in row.programs or f"{program} {subcommand}" in row.programs:
            return row
    return None


def _of_module(argv: Sequence[str]) -> NoEngine | None:
    for i, word in enumerate(argv[1:], 1):
        if word == "-m" and i + 1 < len(argv):
            module = argv[i + 1]
            for row in NO_ENGINES:
                if any(f"{module}.".startswith(f"{name}.") for name in row.modules):
                    return row
            return None
        if not word.startswith("-"):
            return None  # a script: what it starts is not visible
    return None
