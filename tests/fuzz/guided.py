"""The same target, guided by coverage: `python -m tests.fuzz.guided -max_total_time=60`.

Needs atheris, which has wheels for Linux on x86-64 only and so is no part of the environment:
`uv run --with atheris==3.0.0 python -m tests.fuzz.guided`. Arguments are libFuzzer's.
"""

import sys

import atheris

with atheris.instrument_imports(include=["function.command"]):
    pass

from tests.fuzz.grammar import Source
from tests.fuzz.scripts import one


def target(data: bytes) -> None:
    one(Source(data))


if __name__ == "__main__":
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
