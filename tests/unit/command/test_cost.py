"""No command costs more than it should: work is linear, and ends at a limit that is named."""

import json

import pytest

from function.command import Append, budget, read, rewrite
from function.command.budget import LIMITS, Budget
from function.problems import Refused
from tests.fuzz import slow
from tests.unit.command import work


def sh(script, *args, **env):
    return {
        "command": ["bash", "-c", script, *args],
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }


def exec_form(*argv, env=()):
    return {"command": list(argv), "env": list(env)}


POD_IP = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}

# name: the container of size n. Each is read, and those with calls are edited.
GROWING = {
    "a variable that grows": lambda n: sh(
        'A="--a"\n' + 'A="$A --x"\n' * n + "exec vllm serve m $A"
    ),
    "positional parameters that grow": lambda n: sh(
        "set -- m\n" + 'set -- "$@" --x y\n' * n + 'exec vllm serve "$@"'
    ),
    "an empty variable that doubles": lambda n: sh("A=\n" + "A=$A$A\n" * n + "vllm serve m $A"),
    "an array that grows": lambda n: sh("A=(m)\n" + "A+=(--x)\n" * n + 'exec vllm serve "${A[@]}"'),
    "an array that grows in branches": lambda n: sh(
        "A=(m)\n" + "if x; then A+=(--x); fi\n" * n + 'exec vllm serve "${A[@]}"'
    ),
    "a variable in branches": lambda n: sh(
        "A=m\n" + 'if x; then A="$A --x"; B=$A; fi\n' * n + "vllm serve $A"
    ),
    "shifts": lambda n: sh("shift\n" * n + 'vllm serve m "$@"', "sh", *["a"] * n),
    "items far away": lambda n: sh("vllm serve" + f" ${{{n}}}" * 8, "sh", *["a"] * n),
    "items": lambda n: sh("vllm serve" + ' "$1"' * n, "sh", "a"),
    "comments": lambda n: sh("# a comment\n" * n + "vllm serve m"),
    "escaped quotes": lambda n: sh('vllm serve m "' + '\\"' * n + '"'),
    "quotes of all kinds": lambda n: sh("vllm serve m" + " 'a'\"b\"$'c'\\d" * n),
    "words": lambda n: sh("vllm serve m" + " --a" * n),
    "unknown words": lambda n: sh("vllm serve m --b" + " $X" * n),
    "words in one": lambda n: sh("vllm serve m --a=" + "$A'b'" * n, A="x"),
    "arguments": lambda n: exec_form("vllm", "serve", *["--a"] * n),
    "arguments of a script": lambda n: sh('vllm serve "$@"', "sh", *["--a"] * n),
    "assignments": lambda n: sh("A=1 B=2 C=3\n" * n + "vllm serve m$A"),
    "exports": lambda n: sh("export A=1; unset A\n" * n + "vllm serve m$A"),
    "traps": lambda n: sh("trap 'A=1' EXIT\n" * n + "vllm serve m"),
    "here-documents": lambda n: sh("cat <<E\na\nE\n" * (n // 4) + "vllm serve m"),
    "one here-document": lambda n: sh("cat <<'E'\n" + "x, y\n" * n + "E\nvllm serve m"),
    "continued lines": lambda n: sh("vllm serve m" + " \\\n  --a" * n),
    "commands": lambda n: sh("vllm serve m\n" * n),
    "a chain of commands": lambda n: sh("vllm serve m && " * n + "true"),
    "cases": lambda n: sh(
        "case $x in\n" + "a.*-y* | b\\) ) true;;\n" * (n // 8) + "esac\nvllm serve m"
    ),
    "evals": lambda n: sh("eval 'vllm serve m'\n" * n),
    "shells": lambda n: sh("sh -c 'vllm serve m'\n" * n),
    "one eval": lambda n: sh("eval 'vllm serve m" + " --a" * n + "'"),
    "functions": lambda n: sh(
        "".join(f"f{i}() {{ A=1; }}\nf{i}\n" for i in range(n // 4)) + "vllm serve $A"
    ),
    "functions that call each other": lambda n: sh(
        "".join(f'f{i}() {{ f{i + 1} "$@"; }}\n' for i in range(n // 4))
        + f'f{n // 4}() {{ vllm serve "$@"; }}\nf0 m'
    ),
    "calls of a function": lambda n: sh("f() { A=1; }\n" + "f\n" * n + "vllm serve $A"),
    "unknown programs beside functions": lambda n: sh(
        "f() { A=1; }\n" + "$X\n" * n + "vllm serve $A"
    ),
    "nested subshells": lambda n: sh("( " * n + "vllm serve m" + " )" * n),
    "nested branches": lambda n: sh("if a; then\n" * n + "vllm serve m\n" + "fi\n" * n),
    "nested functions": lambda n: sh("f() {\n" * n + "vllm serve m\n" + "}\n" * n),
    "nested substitutions": lambda n: sh("vllm serve m " + "$(a " * n + ")" * n),
    "nested quotes": lambda n: sh("vllm serve m " + '"$(a ' * n + ')"' * n),
    "nested defaults": lambda n: sh("vllm serve m " + "${A:-" * n + "}" * n),
    "open brackets": lambda n: sh("vllm serve m " + "[" * n),
    "open braces": lambda n: sh("vllm serve m " + "{a," * n),
    "runners": lambda n: exec_form(*["nice"] * n, "vllm", "serve"),
    "runners in a script": lambda n: sh("nice " * n + "vllm serve m"),
    "Pythons behind a wrapper": lambda n: exec_form("./w", *["python", "a"] * n, "vllm", "serve"),
    "Python's options": lambda n: exec_form("./w", *["python", "-X"] * n, "vllm", "serve"),
    "variables for Kubernetes": lambda n: exec_form(
        "vllm", "serve", "m", "$(IP)$$" * n, env=[POD_IP]
    ),
    "open variables for Kubernetes": lambda n: exec_form("vllm", "serve", "m", "$(" * n),
    "pasted texts": lambda n: exec_form("sh", "-c", "vllm serve m" + " $(IP)" * n, env=[POD_IP]),
    "pasted texts in an eval": lambda n: exec_form(
        "sh", "-c", "eval 'vllm serve m" + " $(IP)" * n + "'", env=[POD_IP]
    ),
    "env": lambda n: exec_form(
        "vllm", "serve", "m", env=[{"name": f"A{i}", "value": "$(IP)x"} for i in range(n)]
    ),
    "env from fields": lambda n: exec_form(
        "vllm", "serve", "m", env=[{**POD_IP, "name": f"A{i}"} for i in range(n)]
    ),
    "a script without sense": lambda n: sh("vllm serve m; if then; " * (n // 8)),
}


def effort(container):
    """Charges and calls, of reading a container and of editing it."""
    spent, edits = Budget(), Budget()
    found = []
    counted = [work.calls(lambda: found.append(read(container, budget=spent)))]
    (program,) = found
    assert not program.problem.startswith("reading"), program.problem
    changes = {i: [Append("--x")] for i, _ in enumerate(program.calls)}

    def edit():
        try:
            rewrite(program, changes, edits)
        except Refused:
            assert any(call.closed for call in program.calls)

    counted.append(work.calls(edit))
    return [*counted, work.charged(spent), work.charged(edits)]


@pytest.mark.parametrize("name", GROWING)
def test_work_is_linear(name):
    """Twice the input is at most twice the work, and what is charged stands for what is done."""
    read(sh("true"))  # loads the grammar
    one, two = (effort(GROWING[name](n)) for n in (80, 160))
    for before, after in zip(one, two, strict=True):
        assert after <= 2.2 * before + 400, (one, two)
    size = len(json.dumps(GROWING[name](160)))
    assert two[0] <= 80 * size, (two, size)
    assert two[0] <= 60 * (two[2] + size / 10), (two, size)


def growing_env(n):
    entries = [{"name": "A0", "value": "x"}]
    entries += [{"name": f"A{i}", "value": f"$(A{i - 1})$(A{i - 1})"} for i in range(1, n)]
    return exec_form("vllm", "serve", f"$(A{n - 1})", env=entries)


# (container, what the problem says, the limit that is met)
ENDED = {
    "a chain of env values": (growing_env(27), ["16,384", "variables"], "expanded"),
    "many large env values": (
        exec_form("vllm", env=[{"name": f"A{i}", "value": "x" * 100_000} for i in range(30)]),
        ["2,097,152", "Linux"],
        "given",
    ),
    "an argument": (exec_form("vllm", "serve", "m" * 200_000), ["command[2]", "131,071"], ""),
    "a variable that doubles": (
        sh("A0=--a\n" + "".join(f'A{i + 1}="$A{i} $A{i}"\n' for i in range(40)) + "vllm serve m"),
        ["16,384", "variables", "write the engine's flags out"],
        "expanded",
    ),
    "a value that is used often": (
        sh("x $A\n" * 400 + "vllm serve m", A="x " * 1000),
        ["20,000 words"],
        "words",
    ),
    "too many arguments": (exec_form("vllm", "serve", *["a"] * 21_000), ["20,000 words"], "words"),
    "scripts in scripts": (
        sh("eval '" + "true;" * 7_000 + "'"),
        ["65,536 bytes of shell scripts"],
        "scripts",
    ),
    "pipes": (sh("true |\n" * 2000 + "vllm serve m"), ["1,000 of the characters"], "operators"),
    "open commands": (sh("=`>%" * 2000), ["1,000 of the characters"], "operators"),
    "brackets that nothing opens": (sh(")" * 20_000), ["correct its syntax"], "grammar"),
    "a word that the grammar fails on": (sh("a@" * 20_000), ["correct its syntax"], "grammar"),
    "items at the end": (
        sh("vllm serve m" + " ${9999}" * 1000, "sh", *["a"] * 9999),
        ["200,000 steps"],
        "steps",
    ),
}


@pytest.mark.parametrize("name", ENDED)
def test_a_limit_ends_the_work(name):
    container, said, limit = ENDED[name]
    spent = Budget()
    program = read(container, budget=spent)
    assert (program.calls, program.inert, program.other_stack) == ((), False, "")
    for words in said:
        assert words in program.problem
    assert "KV_OFFLOAD_ARGS" not in program.problem  # it would not be read either
    if limit:
        assert spent.counted[limit] > LIMITS[limit].most
    with pytest.raises(Refused) as refusal:
        rewrite(program, {0: [Append("--x")]})
    assert refusal.value.message == program.problem


def test_every_limit_is_met_by_a_test_and_says_what_to_do():
    assert {limit for _, _, limit in ENDED.values()} - {""} == set(LIMITS)
    assert all(limit.fix and limit.why for limit in LIMITS.values())


def test_a_limit_that_only_the_proof_meets_refuses_the_edit():
    program = read(sh("vllm serve m"))
    few = {**LIMITS, "words": budget.Limit("words", 3, 3, "words", "shorten it", "")}
    with pytest.raises(Refused) as refusal:
        rewrite(program, {0: [Append("--x")]}, Budget(limits=few))
    assert refusal.value.reason == "ArgsNotPatchable"
    assert "more than 3 words: shorten it" in refusal.value.message


DEEP = {
    "subshells": lambda n: "( " * n + "vllm serve m" + " )" * n,
    "groups": lambda n: "{ " * n + "vllm serve m; " + "}; " * n,
    "branches": lambda n: "if true; then\n" * n + "vllm serve m\n" + "fi\n" * n,
    "loops": lambda n: "while true; do\n" * n + "vllm serve m\n" + "done\n" * n,
    "functions": lambda n: "f() {\n" * n + "vllm serve m\n" + "}\n" * n,
    "substitutions": lambda n: "echo " + "$(echo " * n + "$(vllm serve m)" + ")" * n,
    "lists": lambda n: "true && " * n + "vllm serve m",
    "pipelines": lambda n: "true | " * n + "vllm serve m",
}


@pytest.mark.parametrize("name", DEEP)
def test_nesting_is_no_recursion(name):
    """400 levels are read and edited; any number never raises."""
    program = read(sh(DEEP[name](400)))
    assert [call.closed for call in program.calls] == [""], program.problem
    assert rewrite(program, {0: [Append("--x")]})
    for n in (2_000, 10_000):
        assert read(sh(DEEP[name](n)))


def test_shells_in_shells_are_read_to_a_depth():
    for deep, known in ((budget.SHELLS_DEEP, True), (budget.SHELLS_DEEP + 1, False)):
        program = read(sh("eval " * deep + "vllm serve m"))
        assert bool(program.calls) == known
        assert bool(program.problem) != known
        assert not program.inert


# What Python or the room might stumble over, wherever it is written.
ODD = ("9" * 5000, "-" + "9" * 5000, "²", "\u0660" * 9, "\x1b[0m", "a\u00a0b", "\\", "$", "${", "'")


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_odd_texts_never_raise(odd):
    places = [
        exec_form("vllm", "serve", odd, "--port", odd),
        exec_form(odd, "vllm", "serve"),
        exec_form("nice", "-n", odd, "vllm", "serve", "m"),
        exec_form("timeout", odd, "vllm", "serve", "m"),
        exec_form("bash", "-c", "vllm serve m", odd),
        exec_form("vllm", "serve", f"$({odd})", env=[{"name": odd, "value": odd}]),
        *(sh(text) for text in (odd, f"vllm serve {odd}", f"vllm serve ${{{odd}}} ${odd}")),
        sh(f'vllm serve "{odd}" $(({odd})) ${{A[{odd}]}} {odd}>f'),
        sh(f"shift {odd}; vllm serve $1"),
        sh(f"{odd}() {{ vllm serve m; }}; {odd}"),
    ]
    for container in places:
        program = read(container)
        assert program == read(container)


def test_words_that_messages_quote_are_shortened():
    for container in (
        exec_form("x" * 100_000),
        sh("y" * 100_000),
        sh('vllm serve "' + "z" * 99_999),
    ):
        program = read(container)
        said = program.problem or program.calls[0].closed
        assert 0 < len(said) < 1000


def test_a_short_campaign():
    counts = slow.campaign(runs=40, seed=7, seconds=60)
    assert counts["runs"] == 40
    assert counts["linear"] > 20
