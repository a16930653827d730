"""Scripts: what is read, what is edited, and that real shells agree with both."""

import pytest

from function.command import Append, read, rewrite
from function.problems import Refused
from tests.unit.command import shells
from tests.unit.command.corpus import CASES, CLOSED, NO_CALLS, PLUS, Case

# One value that every level of quoting has to carry.
ADDED = ["--kv-transfer-config", """{"a": ["it's", "$HOME $(X) `y` \\\\ !"], "b*": "é"}"""]
EDITS = [Append(word) for word in ADDED]


def filled(starts, words):
    return [
        [word for item in start for word in (words if item is PLUS else [item])] for start in starts
    ]


def runs(case: Case):
    return [(case.runtime, case.starts), *case.more]


def used_shells(case: Case):
    return [name for name in shells.SHELLS if case.shell[0] == "sh" or name == "bash"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("bin")
    shells.install(made)
    return made


def rewritten(case: Case):
    program = read(case.container)
    assert [call.closed for call in program.calls] == [""] * len(program.calls)
    assert program.calls
    edits = dict.fromkeys(range(len(program.calls)), EDITS)
    return {**case.container, **rewrite(program, edits)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_real_shells_agree(case, folder):
    before, after = case.container, rewritten(case)
    for shell in used_shells(case):
        for runtime, starts in runs(case):
            assert shells.run(before, shell, folder, runtime) == filled(starts, []), shell
            assert shells.run(after, shell, folder, runtime) == filled(starts, ADDED), shell


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_static_words_are_read_as_the_shell_gives_them(case):
    for container, words in ((case.container, []), (rewritten(case), ADDED)):
        for call in read(container).calls:
            if any(word.value is None for word in call.words):
                continue
            start = [*call.entrypoint.split(), *(word.value for word in call.words)]
            known = [filled(starts, words) for _, starts in runs(case)]
            assert any(start in starts for starts in known), start


def test_the_corpus_meets_the_shells_it_is_for():
    assert "bash" in shells.SHELLS
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(("script", "args", "env", "said"), CLOSED)
def test_what_cannot_be_proven_is_refused(script, args, env, said):
    container = {"command": ["sh", "-c", script, *args], "env": env and []}
    program = read(container)
    assert program.calls
    with pytest.raises(Refused) as refusal:
        rewrite(program, dict.fromkeys(range(len(program.calls)), EDITS))
    assert refusal.value.reason == "ArgsNotPatchable"
    assert said in refusal.value.message
    assert "KV_OFFLOAD_ARGS" in refusal.value.message
    assert "--kv-transfer-config" in refusal.value.message


@pytest.mark.parametrize(("script", "problem", "inert", "other_stack"), NO_CALLS)
def test_scripts_without_engine_calls(script, problem, inert, other_stack):
    program = read({"command": ["bash", "-c", script]})
    assert program.calls == ()
    assert (program.inert, program.other_stack) == (inert, other_stack)
    assert problem in program.problem
    assert bool(problem) == bool(program.problem)
