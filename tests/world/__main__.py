"""Small worlds around the real function: `python -m tests.world --runs 10000`.

Each history is a list of acts of people and faults, in a world whose order of events is drawn from
a seed. What must hold is in rules.py. A history that breaks a rule is shortened and
printed, with the command that plays it again.
"""

import argparse
import gc
import sys
import time
import traceback
from collections.abc import Sequence

from tests.world.acts import Act, Play, history
from tests.world.function import Function


def play(function: Function, acts: Sequence[Act]) -> str:
    """Return what broke, "" for nothing."""
    function.begin()
    try:
        it = Play(function)
        for act in acts:
            it.act(act)
    except AssertionError as broken:
        return str(broken) or traceback.format_exc()
    except Exception:
        return traceback.format_exc()
    return ""


def shortened(function: Function, acts: Sequence[Act]) -> list[Act]:
    """Return fewer acts that break a rule too: whole chunks go first, then single acts."""
    kept = list(acts)
    size = max(1, len(kept) // 2)
    while True:
        at, shrunk = 0, False
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            said = play(function, fewer)
            if said and "Traceback" not in said:
                kept, shrunk = fewer, True
            else:
                at += size
        if size > 1:
            size //= 2
        elif not shrunk:
            return kept


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10_000, help="histories")
    options.add_argument("--seed", type=int, default=0, help="of the first history")
    options.add_argument("--seconds", type=float, default=0, help="of CPU, 0: no limit")
    options.add_argument("--failures", type=int, default=1, help="stop after so many")
    options.add_argument("--checked", type=float, default=0.002, help="replies computed twice")
    options.add_argument("--as-it-is", action="store_true", help="shorten no history")
    options.add_argument("--play", metavar="FILE", help="play the acts of a file")
    given = options.parse_args(arguments)
    function = Function(given.checked)
    gc.disable()  # what is remembered has few cycles, and grows to millions of objects
    if given.play:
        with open(given.play) as file:
            acts = [Act.parse(line.strip()) for line in file if line.strip()]
        said = play(function, acts)
        print(said or "nothing broke")
        return bool(said)
    begun, failures, made = time.process_time(), 0, 0
    for seed in range(given.seed, given.seed + given.runs):
        if 0 < given.seconds < time.process_time() - begun:
            break
        acts = history(seed)
        made += 1
        if made % 10_000 == 0:
            print(f"{made} histories in {time.process_time() - begun:.0f} s of CPU", flush=True)
        said = play(function, acts)
        if not said:
            continue
        failures += 1
        few = acts if given.as_it_is else shortened(function, acts)
        print(f"seed {seed}: {said}\n  its acts, for --play FILE:", flush=True)
        print("\n".join(f"    {act}" for act in few))
        if few != acts:
            print(f"  {play(function, few)}", flush=True)
        if failures >= given.failures:
            break
    print(
        f"{made} histories from seed {given.seed} in {time.process_time() - begun:.0f} s of CPU:"
        f" {failures} broke a rule; {function.answered} replies, {function.calls} computed"
    )
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
