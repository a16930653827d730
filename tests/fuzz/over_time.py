"""Fuzzes what the function decides over time: `python -m tests.fuzz.over_time --runs 500`.

Programs of what a platform team, ML teams, clusters and the function itself may do, each followed
by as many reconciles as change anything; what must hold is in tests/unit/composers/over_time.py. A
program that breaks it is shortened, and printed as the calls that make it.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.composers.over_time import OverTime

BATCH = 5


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=500, help="programs")
    options.add_argument("--steps", type=int, default=15, help="of a program, at most")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=0, help="stop after so long, 0: never")
    given = options.parse_args(arguments)
    chosen = settings(
        max_examples=BATCH,
        stateful_step_count=given.steps,
        phases=[Phase.generate, Phase.shrink],
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    begun, made = time.monotonic(), 0
    while made < given.runs and not 0 < given.seconds < time.monotonic() - begun:
        program = seed(given.seed + made)(type("OverTime", (OverTime,), {}))
        run_state_machine_as_test(program, settings=chosen)
        made += BATCH
    print(f"{made} programs in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
