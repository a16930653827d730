"""$KV_OFFLOAD_ARGS: what a real shell makes of it, unquoted."""

import json
import shutil
import subprocess

import pytest

from function.contract.injection import Injection
from function.engines.plan import unquoted
from function.problems import Refused
from tests.unit.engines.helpers import (
    KV,
    LMC,
    LMCACHE,
    NIXL,
    OFFLOAD,
    RECOMPUTE,
    engine,
    expansion,
    js,
    planned,
    sglang,
    vllm,
)

SHELLS = [name for name in ("bash", "dash") if shutil.which(name)]


UNQUOTED = 'printf "%s\\0" $KV_OFFLOAD_ARGS'
EVALUATED = "eval \"printf '%s\\0' $KV_OFFLOAD_ARGS\""


def split(shell: str, script: str, text: str, cwd) -> list[str]:
    """The words that `shell` makes of $KV_OFFLOAD_ARGS in a script that prints them."""
    done = subprocess.run(
        [shell, "-c", script],
        env={"KV_OFFLOAD_ARGS": text, "PATH": "/usr/bin:/bin"},
        cwd=cwd,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().split("\0")[:-1]


VALUES = [
    LMCACHE,
    {"kv_connector_extra_config": {"connectors": [NIXL, OFFLOAD, LMCACHE]}},
    {"topic": "kv@$(POD_IP):8000@a model", "endpoint": "tcp://*:5557", "x": "a?b\\c\t'\"`$HOME~"},
    {"list": [[1, 2], ["{a,b}", "[a-z]"]]},
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("value", VALUES, ids=["one", "several", "awkward", "brackets"])
def test_json_survives_the_unquoted_shell_variable(shell, value, tmp_path):
    for name in ("a", "b", "*", "{"):
        (tmp_path / name).touch()
    words = split(shell, UNQUOTED, f"{KV} {unquoted(js(value))}", tmp_path)
    assert words[0] == KV and len(words) == 2
    assert json.loads(words[1]) == value


def test_opt_in_words_equal_the_edits():
    call = vllm("m", expansion("$EXTRA"), opted_in=True)
    assert planned(call, engine(), LMC).edits() == []
    want = js({**LMCACHE, **RECOMPUTE})
    assert planned(call, engine(), LMC).opt_in() == f"{KV} {want}"


def test_flag_of_the_user_is_replaced_in_place():
    call = vllm("m", KV, js(NIXL), opted_in=True)
    [edit] = planned(call, engine(), LMC).edits()
    assert (edit.index, json.loads(edit.value)["kv_connector"]) == (2, "MultiConnector")
    assert planned(call, engine(), LMC).opt_in() == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_inside_an_eval_the_words_are_quoted(shell, tmp_path):
    awkward = {**OFFLOAD, "kv_connector_extra_config": {"a": "it's a * b", "b": ["$HOME"]}}
    call = vllm("m", opted_in=True, evaluated=True)
    value = planned(call, engine(), Injection("x", connector=awkward)).opt_in()
    words = split(shell, EVALUATED, value, tmp_path)
    assert words[0] == KV and json.loads(words[1]) == awkward


def test_sglang_switches_and_values():
    ours = Injection("x", flags={"--enable-hierarchical-cache": None, "--page-size": "64"})
    call = sglang("--model-path", "m", opted_in=True)
    assert planned(call, engine("SGLang"), ours).opt_in() == (
        "--enable-hierarchical-cache --page-size 64"
    )


@pytest.mark.parametrize("value", ["a b", "*.yaml", "", "a\\b", "[{"])
def test_words_that_the_shell_would_split_are_refused(value):
    if value == "[{":  # no pattern: no closing bracket, no white space
        assert unquoted(value) == value
        return
    with pytest.raises(Refused, match="would not survive") as found:
        unquoted(value)
    assert found.value.reason == "ArgsNotPatchable"
