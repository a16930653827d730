"""Edits inside scripts: replacing, deleting, opting in, and values that Kubernetes pastes."""

import shlex

import pytest

from function.command import Append, Delete, ImageCall, Replace, read, rewrite
from function.problems import Refused
from tests.unit.command import shells


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("bin")
    shells.install(made)
    return made


def bash(script, *args, **env):
    return {
        "command": ["bash", "-c"],
        "args": [script, *args],
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }


# (script, edits of call 0, the script afterwards)
EDITS = [
    ("vllm serve m --a 1 --b", [Replace(2, "x y")], "vllm serve m --a 'x y' --b"),
    ("vllm serve m --a 1 --b", [Delete(1), Delete(2)], "vllm serve m --b"),
    ("vllm serve m --a 1 --b", [Delete(3), Append("--c")], "vllm serve m --a 1 --c"),
    ("vllm serve m --a '{}'", [Replace(2, "{}"), Append("z")], "vllm serve m --a '{}' z"),
    (
        "vllm serve m \\\n  --a 1 \\\n  --b\necho",
        [Delete(1), Delete(2)],
        "vllm serve m \\\n \\\n  --b\necho",
    ),
    ("eval 'vllm serve m --a \"b\"'", [Replace(2, "c d")], "eval 'vllm serve m --a '\\''c d'\\'''"),
    ('eval "vllm serve m --a 1"', [Replace(2, '{"x"}')], 'eval "vllm serve m --a \'{\\"x\\"}\'"'),
    ('vllm serve m --a="$X" --b', [Replace(1, "--a=1")], "vllm serve m --a=1 --b"),
]


@pytest.mark.parametrize(("script", "edits", "after"), EDITS)
def test_words_of_scripts_are_edited_in_place(script, edits, after):
    assert rewrite(read(bash(script)), {0: edits}) == {"args": [after]}


def test_words_from_arguments_are_edited_in_the_list():
    container = bash('exec vllm serve "$@"', "--", "m", "--a", "1")
    assert rewrite(read(container), {0: [Delete(1), Replace(2, "2")]}) == {
        "args": ['exec vllm serve "$@"', "--", "m", "2"]
    }


# (container, edit, what the refusal names)
FIXED = [
    (bash("M=x; vllm serve $M"), Replace(0, "y"), "variable M"),
    (bash("vllm serve m $X", X="--a"), Delete(1), "env X"),
    (bash('echo "$1"; vllm serve "$@"', "sh", "m"), Replace(0, "y"), "more than one place"),
    (bash("vllm serve m"), Delete(7), "word 7"),
    (
        {"command": ["vllm", "serve", "$(M)"], "env": [{"name": "M", "valueFrom": {"x": {}}}]},
        Delete(0),
        "change it there",
    ),
    (bash("vllm serve $(M)", M="m"), Delete(0), "comes out of a variable"),
]


@pytest.mark.parametrize(("container", "edit", "said"), FIXED)
def test_words_that_come_from_elsewhere_are_not_edited(container, edit, said):
    with pytest.raises(Refused) as refusal:
        rewrite(read(container), {0: [edit]})
    assert said in refusal.value.message


def test_an_item_that_names_a_variable_is_edited_as_a_whole():
    """Its value is seen; the variable stays, whoever else reads it."""
    container = {"command": ["vllm", "serve", "$(M)"], "env": [{"name": "M", "value": "m"}]}
    assert rewrite(read(container), {0: [Delete(0)]}) == {"command": ["vllm", "serve"]}
    assert rewrite(read(container), {0: [Replace(0, "y")]}) == {"command": ["vllm", "serve", "y"]}


OPT_IN_WORDS = ["--kv-transfer-config", '{"a":["b",{"c":"d"}]}']


@pytest.mark.parametrize(
    ("script", "evaluated"),
    [
        ("vllm serve m $KV_OFFLOAD_ARGS --z", False),
        ("vllm serve m ${KV_OFFLOAD_ARGS}", False),
        ("set -u; vllm serve m ${KV_OFFLOAD_ARGS:-}", False),
        (
            "if false; then vllm serve n $KV_OFFLOAD_ARGS; else vllm serve m $KV_OFFLOAD_ARGS; fi",
            False,
        ),
        ("sh -c 'vllm serve m $KV_OFFLOAD_ARGS'", False),
        ("IFS=, read -r a <x; vllm serve m $KV_OFFLOAD_ARGS", False),
        ("IFS=,; sh -c 'vllm serve m $KV_OFFLOAD_ARGS'", False),
        ('eval "exec vllm serve m $KV_OFFLOAD_ARGS"', True),
        ("eval 'exec vllm serve m $KV_OFFLOAD_ARGS'", False),
    ],
)
def test_the_opt_in_variable_arrives_as_words(script, evaluated, folder):
    program = read(bash(script))
    for call in program.calls:
        assert (call.opted_in, call.evaluated, call.closed) == (True, evaluated, "")
    # In the text of an eval a shell parses the value once more (flags.opt_in_value).
    value = shlex.join(OPT_IN_WORDS) if evaluated else " ".join(OPT_IN_WORDS)
    for shell in shells.SHELLS:
        (start,) = shells.run(bash(script, KV_OFFLOAD_ARGS=value), shell, folder, {})
        at = start.index("--kv-transfer-config")
        assert start[at : at + 2] == OPT_IN_WORDS
    # Wiring again finds the same call: the variable's value is not among the words.
    again = read(bash(script, KV_OFFLOAD_ARGS=value))
    assert [call.words for call in again.calls] == [call.words for call in program.calls]


def source(variable, kind, **ref):
    return {"name": variable, "valueFrom": {kind: ref}}


def test_a_secret_pasted_by_kubernetes_ends_what_can_be_proven():
    secret = source("KEY", "secretKeyRef", name="s", key="k")
    container = bash("vllm serve m --api-key $(KEY) --b") | {"env": [secret]}
    (call,) = read(container).calls
    assert [word.value for word in call.words] == ["m", "--api-key", None, "--b"]
    result = rewrite(read(container), {0: [Append("--c")]})
    assert (
        result == {"args": ["vllm serve m --api-key --c $(KEY) --b"]}
        or "--c --api-key" in (result["args"][0])
    )


def test_a_pod_ip_pasted_by_kubernetes_is_harmless():
    ip = source("IP", "fieldRef", fieldPath="status.podIP")
    container = bash("exec vllm serve m --host $(IP) --b '$(IP):1'") | {"env": [ip]}
    (call,) = read(container).calls
    assert [(word.value, word.prefix) for word in call.words[2:]] == [
        (None, ""),
        ("--b", "--b"),
        (None, ""),
    ]
    result = rewrite(read(container), {0: [Append("--t"), Append("kv@$(IP):1 x", expand=True)]})
    assert result["args"] == ["exec vllm serve m --host $(IP) --b '$(IP):1' --t 'kv@$(IP):1 x'"]
    assert read({**container, **result}).calls[0].words[-1].prefix == "kv@"


# What Modelplane v0.3 sets on the pods of every gang.
GANG = [
    {"name": "MODELPLANE_LEADER_ADDRESS", "value": "$(LWS_LEADER_ADDRESS)"},
    {"name": "MODELPLANE_RANK", "value": "$(LWS_WORKER_INDEX)"},
    {"name": "LEADER", "value": "tcp://$(MODELPLANE_LEADER_ADDRESS):6379"},
]


def test_a_variable_made_of_harmless_ones_is_harmless():
    leader = "ray start --head --port=6379; exec vllm serve m --node-rank=$(MODELPLANE_RANK) --b"
    result = rewrite(read(bash(leader) | {"env": GANG}), {0: [Append("--c")]})
    assert result == {"args": [leader + " --c"]}
    for address in ("$(MODELPLANE_LEADER_ADDRESS):6379", "$(LEADER)"):
        worker = read(bash(f"exec ray start --address={address} --block") | {"env": GANG})
        assert (worker.inert, worker.problem, worker.calls) == (True, "", ())


@pytest.mark.parametrize(
    "value", ["$(LWS_LEADER_ADDRESS); id", "a $(LWS_LEADER_ADDRESS)", "$(KEY)", "$(KEY)/$(IP)", "`"]
)
def test_a_variable_that_may_hold_more_than_plain_characters_is_not(value):
    env = [
        source("KEY", "secretKeyRef", name="s", key="k"),
        source("IP", "fieldRef", fieldPath="status.podIP"),
        {"name": "MADE", "value": value},
    ]
    program = read(bash("exec ray start --address=$(MADE)") | {"env": env})
    assert program.problem


def test_both_calls_or_none():
    container = bash("if x; then vllm serve a; else ./w vllm serve b; fi")
    program = read(container)
    assert [bool(call.closed) for call in program.calls] == [False, True]
    with pytest.raises(Refused):
        rewrite(program, {0: [Append("--c")], 1: [Append("--c")]})


def test_a_branch_edits_each_call_on_its_own():
    program = read(bash("if x; then vllm serve a; else vllm serve b; fi"))
    assert rewrite(program, {0: [Append("--p")], 1: [Append("--q")]}) == {
        "args": ["if x; then vllm serve a --p; else vllm serve b --q; fi"]
    }


def test_an_image_entrypoint_may_be_a_shell():
    program = read({"args": ["vllm serve m"]}, ImageCall("", ("/bin/bash", "-c")))
    assert rewrite(program, {0: [Append("--a")]}) == {"args": ["vllm serve m --a"]}
    program = read({"args": ["x"]}, ImageCall("vLLM", ("sh", "-c", 'exec vllm serve "$@"', "sh")))
    assert program.calls == ()
    assert "image" in program.problem


def test_unread_program_of_a_script_is_named():
    program = read(bash("./setup.sh && vllm serve m"))
    assert program.parsed.unread == ("what ./setup.sh starts is not known here",)
    assert rewrite(program, {0: [Append("--a")]}) == {"args": ["./setup.sh && vllm serve m --a"]}
