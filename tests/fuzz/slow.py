"""Looks for commands that cost more than they should: `python -m tests.fuzz.slow --runs 1000`.

A few random pieces are repeated, side by side or in one another: n and 2n times. Work is counted:
what reading and editing charged to the budget, and how many calls Python made
(`tests.unit.command.work`); CPU time has a loose bound by byte too. A byte that is read, or that a
variable is expanded to, costs so much at most; where twice the input does not expand to more than
twice as much, it is about twice the work; and whatever it is, it ends.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass

from function.command import Append, read, rewrite
from function.command.budget import Budget
from function.problems import Refused
from tests.fuzz import grammar
from tests.fuzz.grammar import SPECIAL, Source
from tests.unit.command import work

# More than any input of the limits' size needs: a few seconds.
MOST_CALLS = 6_000_000
CALLS_PER_BYTE = 150
# What reading a small script costs, whatever stands in it.
FIXED = 6000
# CPU time of a thread. Of 800 inputs the longest took 154 ms, for 100 KB; the most for a byte was
# 11 us, in one of 2 KB. The limits are five times that, for busy machines: calls are counted above.
FIXED_NS = 500_000_000
NS_PER_BYTE = 50_000

PIECES = (
    'A="$A --x"', "A=$A$A", 'set -- "$@" x', "ARGS+=(--x)", 'B=("${ARGS[@]}" x)', "shift", "$A",
    '"$@"', '"$*"', "${A:-", "$(a ", "`a`", "if x; then", "fi", "while x; do", "done", "f() {",
    "}", "f;", "eval ", "sh -c ", "env A=1 ", "nice ", "python3 -X ", "vllm serve ", "m ", "&& ",
    "| ", "||", "&", ";", "\n", " \\\n", "# c\n", "<<E\na\nE\n", ">f ", "((A++))", "$((A+1))",
    "[[ a ]]", "{a,b}", "'a'", '"b"', "$'c'", "\\d", "~", "*", "local A=1", "unset A", "export A",
    "read A", "trap 'A=1' 0", "case x in a) ", ";;", "esac", "for A in b; do", "$(IP)", "$$", "$(",
    "$(SECRET)", "é", "A=1 B=2\n",
)  # fmt: skip
ENV = (
    {"name": "A", "value": "x y"},
    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}},
)


@dataclass(frozen=True)
class Shape:
    """`before`, n times `begin`, `core`, n times `end`, `after`: of a script, a list or an env."""

    where: str
    before: str
    begin: str
    core: str
    end: str
    after: str

    def container(self, n: int) -> dict:
        if self.where == "list":
            return {"command": ["vllm", "serve", *[self.begin] * n, self.core, *[self.end] * n]}
        if self.where == "env":
            made = [{"name": f"V{i}", "value": f"{self.begin}$(V{i - 1})"} for i in range(n)]
            return {"command": ["vllm", "serve", f"$(V{n - 1}){self.end}"], "env": made}
        text = self.before + self.begin * n + self.core + self.end * n + self.after
        return {"command": ["bash", "-c", text, *["a b"] * (n if self.where == "args" else 1)]}


def shape(s: Source) -> Shape:
    def pieces(most: int) -> str:
        return "".join(piece(s) + s.pick(("", " ", "\n")) for _ in range(s.below(most)))

    where = s.pick(("script", "script", "script", "args", "list", "env"))
    core = s.pick(("", "vllm serve m ", "vllm serve $A\n", grammar.statement(s, True, False, 1)))
    return Shape(where, pieces(3), pieces(5), core, s.pick(("", pieces(3))), pieces(3))


def piece(s: Source) -> str:
    kind = s.below(5)
    if kind == 0:
        return s.pick(SPECIAL)
    return grammar.word(s, True) if kind == 1 else s.pick(PIECES)


@dataclass(frozen=True)
class Cost:
    """`made`: the bytes and words that variables were expanded to."""

    size: int
    made: int
    calls: int
    charged: int
    ended: bool
    nanoseconds: int


def cost(container: dict) -> Cost:
    container = {**container, "env": [*ENV, *container.get("env", ())]}
    budgets = Budget(), Budget()
    ended = []

    def run() -> None:
        program = read(container, budget=budgets[0])
        ended.append(program.problem.startswith("reading the command needs"))
        try:
            rewrite(program, {i: [Append("--x")] for i, _ in enumerate(program.calls)}, budgets[1])
        except Refused as refusal:
            ended.append("reading the command needs" in refusal.message)

    begun = time.thread_time_ns()
    run()
    nanoseconds = time.thread_time_ns() - begun
    ended.clear()
    for spent in budgets:
        spent.counted.clear()
    calls = work.calls(run)
    charged = sum(map(work.charged, budgets))
    made = sum(b.counted.get(name, 0) for b in budgets for name in ("words", "expanded", "given"))
    return Cost(len(json.dumps(container)), made, calls, charged, any(ended), nanoseconds)


def check(made: Shape, n: int) -> str:
    """What became of it; raises AssertionError for a shape that costs too much."""
    one, two = (cost(made.container(size)) for size in (n, 2 * n))
    for spent in (one, two):
        assert spent.calls <= MOST_CALLS, spent
        assert spent.nanoseconds <= FIXED_NS + NS_PER_BYTE * (spent.size + spent.made), spent
    if one.ended or two.ended:
        return "ended"
    for spent in (one, two):
        assert spent.calls <= FIXED + CALLS_PER_BYTE * (spent.size + spent.made), spent
    if two.made > 2.5 * one.made:
        return "expanded"
    for before, after in ((one.calls, two.calls), (one.charged, two.charged)):
        assert after <= 2.5 * before + FIXED, (one, two)
    return "linear"


def campaign(runs: int, seed: int, seconds: float) -> Counter:
    """Runs until `runs` inputs or `seconds` of CPU are used up; raises at the first failure."""
    counts: Counter = Counter()
    begin = time.process_time()
    for number in range(runs):
        if time.process_time() - begin > seconds:
            break
        made = shape(Source(random.Random(f"{seed}/{number}")))
        try:
            counts[check(made, 60 if number % 20 else 600)] += 1
        except BaseException:
            print(f"input {number} of seed {seed}: {made}")
            raise
        counts["runs"] += 1
    counts["seconds"] = round(time.process_time() - begin)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300, help="of CPU; stop after so long")
    options = parser.parse_args()
    counts = campaign(options.runs, options.seed, options.seconds)
    print(", ".join(f"{name}: {counts[name]}" for name in sorted(counts)))
    if counts["runs"] < options.runs:
        sys.exit(f"only {counts['runs']} of {options.runs} inputs in {options.seconds:g} s")


if __name__ == "__main__":
    main()
