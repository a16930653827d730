"""Render every case with one engine or both, and compare with the goldens.

    python -m tests.render.run [--engine embedded|crossplane|both] [--update|--show] [CASE..]

A CASE is a folder under tests/render/cases, or the beginning of its name. With Crossplane's
binaries, what was rendered also goes through `crossplane resource validate`. Without them, both are
skipped by name and counted; --require-engine makes that a failure.
"""

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Callable, Iterator

from kv_offload.render import emit, files, merge
from tests.render import changes, engines, golden, servers, simulate, validate
from tests.render.case import Case, Document, Pass, all_cases
from tests.tools import find

# What the function answers when one of its composers raises.
_BUG = "function-kv-offload has a bug"

Engine = Callable[[Case, Pass, engines.State], engines.Answer]


@contextlib.contextmanager
def crossplane(names: set[str]) -> Iterator[Engine]:
    """Crossplane's own engine, with these functions served; ToolsMissing if it is not built."""
    cli, core = find.require("crossplane"), find.require(find.CORE)
    with servers.functions(names) as addresses:
        yield engines.Crossplane(cli, core, addresses)


def render(case: Case, engine: Engine) -> Iterator[tuple[Pass, engines.Answer]]:
    """Each pass in order, and its answer."""
    state = engines.State(case.xr, case.documents("observed"))
    before: engines.Answer | None = None
    for one in case.passes:
        if before is not None:
            state = next_state(case, state, before, one)
        before = engine(case, one, state)
        yield one, before


def next_state(
    case: Case, state: engines.State, before: engines.Answer, one: Pass
) -> engines.State:
    """What a cluster holds when the pass begins; a failure keeps what ran."""
    status = {"status": before.xr.get("status") or {}}
    observed = state.observed if before.failed else before.composed
    xr = merge.merged({**case.composite(one), "status": {}}, status)
    return engines.State(xr, simulate.observe(observed, one.simulate))


def check(case: Case, engine: Engine, name: str, update: bool) -> list[str]:
    """What differs from the goldens, as unified diffs of the whole that was printed."""
    wrong = []
    for one, answer in render(case, engine):
        documents = golden.with_evictor_names(answer.documents)
        text = emit.to_yaml(documents)
        if _BUG in text:
            wrong.append(f"{one.name}: a composer failed; no golden may hold that")
        elif update:
            golden.path(case, one).write_text(golden.text(case, one, documents))
        else:
            wrong += _differences(case, one, text, documents, name)
    if update:
        for unexpected in golden.unexpected_files(case):
            unexpected.unlink()
    return wrong


def _differences(
    case: Case, one: Pass, text: str, documents: list[Document], name: str
) -> list[str]:
    path = golden.path(case, one)
    shown = os.path.relpath(path, servers.ROOT)
    try:
        expected = emit.to_yaml(golden.expected(case, one))
    except (files.InputError, changes.ChangesError) as error:
        return [f"{shown}: {error}"]
    if text != expected:
        diff = difflib.unified_diff(expected.splitlines(), text.splitlines(), shown, name)
        return ["\n".join(list(diff)[:200])]
    if path.read_text() != golden.text(case, one, documents):
        return [f"{shown}: right, and not as it is written: run `make goldens`"]
    return []


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=("embedded", "crossplane", "both"), default="both")
    parser.add_argument("--update", action="store_true", help="write the goldens")
    parser.add_argument("--show", action="store_true", help="print what each pass must print")
    parser.add_argument("--require-engine", action="store_true", help="a skip is a failure")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args(arguments)
    cases = _chosen(options.cases)
    if not cases:
        print("no such case", file=sys.stderr)
        return 2
    if options.show:
        return _show(cases)
    failed: list[str] = []
    skipped: list[str] = []
    if options.engine != "crossplane":
        failed += _all(cases, "embedded", engines.embedded, options.update)
    if options.engine != "embedded":
        names = [case.name for case in cases]
        try:
            with crossplane({name for case in cases for name in case.functions}) as engine:
                update = options.update and options.engine == "crossplane"
                failed += _all(cases, "crossplane", engine, update)
        except find.ToolsMissing as missing:
            skipped += _skip("Crossplane's engine", names, missing)
        try:
            with validate.validator() as validator:
                failed += _validate(cases, validator)
        except find.ToolsMissing as missing:
            skipped += _skip("crossplane resource validate", names, missing)
    passes = sum(len(case.passes) for case in cases)
    print(f"{len(cases)} cases, {passes} passes; {len(failed)} wrong, {len(skipped)} skipped")
    return int(bool(failed) or (bool(skipped) and options.require_engine))


def _chosen(prefixes: list[str]) -> list[Case]:
    """The cases that are named, and those that are like one of them."""

    def named(name: str) -> bool:
        return not prefixes or name.startswith(tuple(prefixes))

    return [
        case
        for case in all_cases()
        if named(case.name) or any(one.like and named(one.like) for one in case.passes)
    ]


def _show(cases: list[Case]) -> int:
    for case in cases:
        for one in case.passes:
            print(f"# {case.name}{one.name and ', '}{one.name}")
            print(emit.to_yaml(golden.expected(case, one)), end="")
    return 0


def _skip(what: str, names: list[str], missing: find.ToolsMissing) -> list[str]:
    print(f"SKIPPED {len(names)} with {what} ({missing}):")
    print("\n".join(f"  {name}" for name in names))
    return names


def _all(cases: list[Case], name: str, engine: Engine, update: bool) -> list[str]:
    return _report(cases, name, lambda case: check(case, engine, name, update))


def _validate(cases: list[Case], validator: validate.Validator) -> list[str]:
    return _report(cases, "validate", lambda case: invalid(case, validator))


def invalid(case: Case, validator: validate.Validator) -> list[str]:
    """What `crossplane resource validate` says against the passes of a case."""
    documents = [
        document
        for one, answer in render(case, engines.embedded)
        for document in validate.documents(case, one, answer)
    ]
    return validator.problems(documents)


def _report(cases: list[Case], name: str, run: Callable[[Case], list[str]]) -> list[str]:
    failed = []
    for case in cases:
        wrong = run(case)
        failed += [f"{case.name} ({name})"] * bool(wrong)
        print(f"{'WRONG' if wrong else 'ok   '} {name:<10} {case.name}", flush=True)
        print("\n".join(wrong), end="\n" if wrong else "")
    return failed


if __name__ == "__main__":
    sys.exit(main())
