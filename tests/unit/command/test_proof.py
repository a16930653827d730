"""The proof refuses everything but the intended result; quoting and expansion are inverses."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from function.command import Append, Replace, edit, kubernetes, proof, quoting, read, rewrite
from function.command.budget import Budget
from function.command.proof import TextEdit
from function.command.text import BARE, DOUBLE, SINGLE
from function.problems import Refused
from tests.fuzz.grammar import Source
from tests.fuzz.scripts import campaign, one

SCRIPT = "cd /x\ncat <<E >f\n $A  $B\nE\nexec vllm serve m --b && echo 'x  y' # z"
ADDED = Append("--c")


def attempt(script, result_script, edits=(ADDED,)):
    """What the proof says to `result_script` as the outcome of appending --c to `script`."""
    program = read({"command": ["bash", "-c", script]})
    slot = program.calls[0].slot
    texts = {0: [TextEdit(slot.end, slot.end, ((b" --c", False),), tuple(edits))]}
    result = {"command": ["bash", "-c", result_script]}
    proof.check(program, {0: edits}, result, texts, Budget())


def test_the_intended_result_is_accepted():
    attempt(SCRIPT, SCRIPT.replace("--b", "--b --c"))
    attempt(SCRIPT, SCRIPT.replace("--b", "--b   '--c'"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--b", "--b"),
        ("--b", "--b --d"),
        ("--b", "--c --b"),
        ("--b", "--b --c --c"),
        ("--b", '--b "--c"x'),
        ("--b", "--b $C"),
        ("--b", "--b --c; true"),
        ("--b", "--b --c >f"),
        ("--b", "--b --c & "),
        ("--b &&", "--b --c ||"),
        ("--b &&", "--b --c;"),
        ("exec vllm", "vllm"),
        ("cd /x", "cd /y"),
        ("$A  $B", "$A $B"),
        ("$A  $B", "$A  $C"),
        (">f", ">g"),
        (">f", ">>f"),
        ("<<E", "<<'E'"),
        ("'x  y'", "'x y'"),
        ("'x  y'", '"x  y"'),
        ("serve m", "serve n"),
        ("serve m", "serve 'm'x"),
        ("# z", "# z'"),
    ],
)
def test_anything_else_is_not(old, new):
    changed = SCRIPT.replace(old, new)
    if "--c" not in changed and old != "--b":
        changed = changed.replace("--b", "--b --c")
    with pytest.raises(Refused) as refusal:
        attempt(SCRIPT, changed)
    assert "could not be proven" in refusal.value.message


def test_changes_of_other_items_are_not():
    container = {"command": ["sh", "-c", "vllm serve m; sh -c 'echo x'"], "args": ["a"]}
    program = read(container)
    result = rewrite(program, {0: [Append("--c")]})
    script = result["command"][2]
    for wrong in (script.replace("echo x", "echo y"), script.replace("sh -c", "sh -ec")):
        slot = program.calls[0].slot
        texts = {0: [TextEdit(slot.end, slot.end, ((b" --c", False),), (ADDED,))]}
        with pytest.raises(Refused):
            result = {"command": ["sh", "-c", wrong]}
            proof.check(program, {0: [ADDED]}, result, texts, Budget())


def test_a_rewrite_that_cannot_be_proven_is_refused(monkeypatch):
    program = read({"command": ["sh", "-c", "vllm serve m 'a b'"]})
    monkeypatch.setattr(edit.quoting, "word", lambda value: value.encode())  # type: ignore[attr-defined]
    with pytest.raises(Refused) as refusal:
        rewrite(program, {0: [Replace(1, "c d")]})
    assert "could not be proven" in refusal.value.message
    with pytest.raises(Refused):
        rewrite(program, {0: [Append("x; y")]})


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
SHELLISH = st.text("ab '\"\\$`(){}\n*;&|<>#~!=-é", max_size=30)


@given(TEXT | SHELLISH)
def test_a_quoted_word_is_itself(value):
    assert shlex.split(quoting.word(value).decode()) == [value]


@given(SHELLISH)
def test_encoding_for_quotes_is_undone_by_them(value):
    single = quoting.encode(value.encode(), SINGLE).decode()
    double = quoting.encode(value.encode(), DOUBLE).decode()
    bare = quoting.encode(value.encode(), BARE).decode()
    assert shlex.split(f"'{single}'") == [value]
    assert shlex.split(bare) == [value]
    # shlex knows \\ and \" inside double quotes, but not \$ and \`.
    assert shlex.split(f'"{double}"'.replace("\\$", "$").replace("\\`", "`")) == [value]


@given(TEXT | st.text("$()AB ", max_size=20))
def test_escaping_for_kubernetes_is_undone_by_it(value):
    env = kubernetes.Env({"A": "x", "B": "$(A)"}, {"AB": "secretKeyRef"})
    assert kubernetes.expand(kubernetes.escape(value), env, Budget()).decode() == value
    # Twice as many dollars, or none touched.
    assert kubernetes.escape(value).count("$") in (value.count("$"), 2 * value.count("$"))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("$(A)", "x"),
        ("$(A)$(B)-$(A", "x$(A)-$(A"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$x"),
        ("$$$$", "$$"),
        ("$", "$"),
        ("$(NONE) $(echo a) $x", "$(NONE) $(echo a) $x"),
        ("$(AB)", "${AB}"),
        ("$()", "$()"),
    ],
)
def test_kubernetes_expansion(raw, text):
    env = kubernetes.Env({"A": "x", "B": "$(A)"}, {"AB": "secretKeyRef"})
    assert kubernetes.expand(raw, env, Budget()).decode() == text


def test_a_short_campaign():
    counts = campaign(runs=300, seed=7, seconds=600, shell_every=30)
    assert counts["runs"] == 300
    assert counts["rewritten"] > 100
    assert counts["shell starts"] > 0


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=20, max_size=300))
def test_no_input_crashes_or_is_edited_without_proof(data):
    one(Source(data))
