"""How far one cold call travels: a replica with one pod on an LMCache tier.

    python -m tests.bench.crossings [--top N] [--check]

Counts the function's own calls, in their order: how often the next one is in another file, and in
another room (a folder of function/); and the objects of its own classes. Generators and generated
`__init__`s are no calls. --check fails where a figure is above BUDGET, so that a layer does not
grow back unseen.
"""

import argparse
import inspect
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

import function
from function.fn import FunctionRunner
from tests.bench import requests

ROOT = f"{Path(function.__file__).parent}/"

# The most that a call may count whose tier is remembered, and one whose tier is new as well.
# Lowered whenever a change takes something away.
BUDGET = {
    "known tier": {"calls": 1318, "files": 715, "rooms": 348, "objects": 139, "classes": 76},
    "new tier": {"calls": 1563, "files": 770, "rooms": 381, "objects": 166, "classes": 81},
}


@dataclass
class Count:
    """What one call counts. `files`, `rooms`: changes by (from, to)."""

    functions: Counter[str] = field(default_factory=Counter)
    files: Counter[tuple[str, str]] = field(default_factory=Counter)
    rooms: Counter[tuple[str, str]] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    last: str = ""

    @property
    def totals(self) -> dict[str, int]:
        """Return the figures that BUDGET bounds."""
        return {
            "calls": self.functions.total(),
            "files": self.files.total(),
            "rooms": self.rooms.total(),
            "objects": self.classes.total(),
            "classes": len(self.classes),
        }

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one call, as `sys.setprofile` reports it."""
        code = frame.f_code
        if event != "call" or code.co_flags & inspect.CO_GENERATOR:
            return
        if code.co_name == "__init__":
            made = type(frame.f_locals.get("self"))
            if made.__module__.startswith("function."):
                self.classes[f"{made.__module__}.{made.__qualname__}"] += 1
        if not code.co_filename.startswith(ROOT):
            return
        here, last = code.co_filename.removeprefix(ROOT), self.last
        self.functions[f"{here}:{code.co_qualname}"] += 1
        if here != last:
            self.files[last, here] += 1
            if _room(here) != _room(last):
                self.rooms[_room(last), _room(here)] += 1
        self.last = here


def _room(file: str) -> str:
    return file.partition("/")[0]


def count(request: fnv1.RunFunctionRequest) -> Count:
    """Return what one call of the function counts."""
    found, runner = Count(), FunctionRunner()
    sys.setprofile(found.see)
    try:
        runner.run(request)
    finally:
        sys.setprofile(None)
    return found


def cold() -> dict[str, Count]:
    """Count a call for a consumer of which nothing is remembered; the code itself is loaded."""
    FunctionRunner().run(requests.new_consumer(1))
    return {
        "known tier": count(requests.new_consumer(2)),
        "new tier": count(requests.new_consumer(3, "new")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--top", type=int, default=0, help="list the N largest of each figure")
    parser.add_argument("--check", action="store_true", help="fail above BUDGET")
    options = parser.parse_args()
    above = []
    for case, found in cold().items():
        for name, total in found.totals.items():
            most = BUDGET[case][name]
            print(f"{case}: {name:8} {total:6}  (at most {most})")
            above += [f"{case}: {name}"] if total > most else []
        for counter in (found.functions, found.files, found.rooms, found.classes):
            for what, times in counter.most_common(options.top):
                print(f"{times:6}  {what if isinstance(what, str) else ' -> '.join(what)}")
    if options.check and above:
        sys.exit(f"above the budget: {', '.join(above)}")


if __name__ == "__main__":
    main()
