"""Fuzzes the reading and rewriting of commands: `python -m tests.fuzz.scripts --runs 100000`.

Inputs come from a grammar of scripts, a third of them with the text mutated afterwards. For every
input: no crash, reading is repeatable, no edits change nothing, and an accepted rewrite, read
again, gives exactly the intended words (all else must be Refused). Every `--shell-every`th input of
the grammar also runs in real shells, before and after, with recorders in place of the engines.
`tests.fuzz.guided` lets coverage guide the same target.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from function.command import Append, Delete, ImageCall, Program, Replace, Word, read, rewrite
from function.problems import Refused
from tests.fuzz.grammar import Source, container
from tests.unit.command import shells

ADDED = ("--kv-transfer-config", """{"a": ["it's", "$X $(Y) `z` \\\\"], "b*": "é"}""")
IMAGES = (None, ImageCall("vLLM", ("vllm", "serve")), ImageCall("", ("/nvidia_entrypoint.sh",)))


def seen(program: Program) -> list[list[tuple]]:
    return [[(word.value, word.prefix, word.many) for word in call.words] for call in program.calls]


def rewritten(program: Program, edits: dict) -> dict | None:
    """The result, or None when the rewrite was refused with a reason and a message."""
    try:
        return rewrite(program, edits)
    except Refused as refusal:
        assert refusal.reason == "ArgsNotPatchable"
        assert refusal.message
        return None


def check(source: Source, given: dict, image: ImageCall | None) -> tuple[str, dict | None]:
    """One input: what became of it, and, if all of it was read, the result of appending ADDED."""
    program = read(given, image)
    assert seen(program) == seen(read(given, image))
    assert rewrite(program, {}) == {}
    if not program.calls:
        assert not (program.inert and (program.problem or program.other_stack))
        return ("inert" if program.inert else "foreign" if program.other_stack else "unread"), None
    indexes = range(len(program.calls))
    assert rewrite(program, {index: [] for index in indexes}) == {}
    result = rewritten(program, {index: [Append(word) for word in ADDED] for index in indexes})
    if result is not None:
        _appended(program, given, image, result)
    _changed(source, program, given, image)
    outcome = "refused" if result is None else "rewritten"
    return outcome, None if program.parsed.unread else result


def _appended(program: Program, given: dict, image: ImageCall | None, result: dict) -> None:
    assert set(result) <= {"command", "args"}
    again = read({**given, **result}, image)
    made = [(word, word, False) for word in ADDED]
    assert len(again.calls) == len(program.calls)
    for old, new in zip(seen(program), seen(again), strict=True):
        assert any(old[:at] + made + old[at:] == new for at in range(len(old) + 1))


def _changed(source: Source, program: Program, given: dict, image: ImageCall | None) -> None:
    """One random word is replaced, or deleted."""
    call = source.below(len(program.calls))
    words = program.calls[call].words
    if not words:
        return
    index = source.below(len(words))
    delete = source.below(2) == 0
    edit = Delete(index) if delete else Replace(index, ADDED[1])
    result = rewritten(program, {call: [edit]})
    if result is None:
        return
    expected = seen(program)
    expected[call][index : index + 1] = [] if delete else [(ADDED[1], ADDED[1], False)]
    assert seen(read({**given, **result}, image)) == expected


def fits(words: Sequence[Word], argv: Sequence[str]) -> bool:
    """Whether `argv` is what was read: unknown words fit anything."""
    if not words:
        return not argv
    word, rest = words[0], words[1:]
    if word.many and word.value is None:
        return any(fits(rest, argv[at:]) for at in range(len(argv) + 1))
    if not argv or not fits(rest, argv[1:]):
        return False
    return argv[0] == word.value if word.value is not None else argv[0].startswith(word.prefix)


def as_read(program: Program, argv: Sequence[str]) -> bool:
    starts = (["vllm", "serve"], ["sglang", "serve"], ["python3", "-m"], ["python3", "-u", "-m"])
    own = next(len(s) + (s[-1] == "-m") for s in starts if argv[: len(s)] == s)
    return any(fits(call.words, argv[own:]) for call in program.calls)


def in_shells(given: dict, result: dict, folder: Path) -> int:
    """Real shells start the same engines, with ADDED in one place. Returns how many starts."""
    programs = read(given), read({**given, **result})
    every = 0
    for shell in shells.SHELLS:
        if given["command"][0] == "bash" and shell != "bash":
            continue
        before = shells.run(given, shell, folder, {})
        after = shells.run({**given, **result}, shell, folder, {})
        assert len(before) == len(after), (shell, before, after)
        for program, starts in zip(programs, (before, after), strict=True):
            for argv in starts:
                assert as_read(program, argv), (shell, argv, seen(program))
        for new in after:
            # Jobs in the background may be recorded in another order.
            old = next((old for old in before if _grown(old, new)), None)
            assert old is not None, (shell, before, new)
            before.remove(old)
        every += len(after)
    return every


def _grown(old: list[str], new: list[str]) -> bool:
    return any([*old[:at], *ADDED, *old[at:]] == new for at in range(len(old) + 1))


def one(source: Source) -> tuple[str, dict, dict | None, bool]:
    given, mutated = container(source)
    image = IMAGES[source.below(len(IMAGES))]
    outcome, result = check(source, given, image)
    return outcome, given, result, mutated


def campaign(runs: int, seed: int, seconds: float, shell_every: int) -> Counter:
    """Runs until `runs` inputs or `seconds` of CPU are used up; raises at the first failure."""
    counts: Counter = Counter()
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shells.install(folder)
        for number in range(runs):
            if time.process_time() - begin > seconds:
                break
            source = Source(random.Random(f"{seed}/{number}"))
            try:
                outcome, given, result, mutated = one(source)
                counts["runs"] += 1
                counts[outcome] += 1
                if shell_every and number % shell_every == 0 and result and not mutated:
                    counts["shell runs"] += 1
                    counts["shell starts"] += in_shells(given, result, folder)
            except BaseException:
                again = container(Source(random.Random(f"{seed}/{number}")))
                print(f"input {number} of seed {seed}: {again}")
                raise
    counts["seconds"] = round(time.process_time() - begin)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=900, help="of CPU; stop after so long")
    parser.add_argument("--shell-every", type=int, default=100, help="0: never")
    options = parser.parse_args()
    counts = campaign(options.runs, options.seed, options.seconds, options.shell_every)
    print(", ".join(f"{name}: {counts[name]}" for name in sorted(counts)))
    if counts["runs"] < options.runs:
        sys.exit(f"only {counts['runs']} of {options.runs} inputs in {options.seconds:g} s")


if __name__ == "__main__":
    main()
