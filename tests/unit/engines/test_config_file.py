"""`--config FILE`: a file of flags -> words, and their edits together with the argv.

`FILES` goes through the engines' own parsers in tests/conformance/test_flags.py.
"""

import json
from itertools import pairwise

import pytest

from function.command.model import ConfigFile
from function.contract.injection import Injection
from function.engines import config_file
from function.engines.plan import FlagPlan
from function.engines.registry import kind
from function.engines.vllm.merge import children
from function.problems import Refused
from tests.unit.engines.helpers import (
    KV,
    LMC,
    LMCACHE,
    NIXL,
    apply,
    engine,
    js,
    planned,
    sglang,
    vllm,
)
from tests.unit.engines.test_sglang import HICACHE

NIXL_YAML = "{kv_connector: NixlConnector, kv_role: kv_producer}"
NIXL_WORD = '{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}'

API_SERVER = "vLLM's api_server"
CALLS = {"vLLM": vllm(), API_SERVER: vllm(positional_model=False), "SGLang": sglang()}
SWITCHES = "enforce-eager: true\nenable-prefix-caching: false\nno-enable-chunked-prefill: true\n"

# name: (what starts, the file, its words; None where the engine does not start with it)
FILES: dict[str, tuple[str, str, list[str] | None]] = {
    "scalars": (
        "vLLM",
        "max-num-seqs: 7\ngpu_memory_utilization: 0.5\nblock-size: '32'\n",
        ["--max-num-seqs", "7", "--gpu_memory_utilization", "0.5", "--block-size", "32"],
    ),
    "switches, of which those that are off are lost": (
        "vLLM",
        SWITCHES,
        ["--enforce-eager", "--no-enable-chunked-prefill"],
    ),
    "api_server: switches": (
        API_SERVER,
        SWITCHES,
        ["--enforce-eager", "--no-enable-prefix-caching", "--no-enable-chunked-prefill"],
    ),
    "api_server: off, under another name": (API_SERVER, "enable_prefix_caching: false\n", []),
    "api_server: off, of what has no opposite": (API_SERVER, "kv-transfer-config: false\n", []),
    "off, under another name": ("vLLM", "enable_prefix_caching: false\n", []),
    "off, of what is on or absent": ("vLLM", "kv-transfer-config: false\n", []),
    "a list": (
        "vLLM",
        "served-model-name: [a, b]\nmiddleware: []\n",
        ["--served-model-name", "a", "b"],
    ),
    "an object": ("vLLM", f"kv-transfer-config: {NIXL_YAML}\n", [KV, NIXL_WORD]),
    "an object as text": ("vLLM", f"kv-transfer-config: '{NIXL_WORD}'\n", [KV, NIXL_WORD]),
    "none": ("vLLM", "kv-transfer-config:\nmax-num-seqs: 3\n", [KV, "None", "--max-num-seqs", "3"]),
    "a dotted key": (
        "vLLM",
        "kv-transfer-config.kv_connector: NixlConnector\nkv-transfer-config.kv_role: kv_both\n",
        [f"{KV}.kv_connector", "NixlConnector", f"{KV}.kv_role", "kv_both"],
    ),
    "the last of two equal keys": (
        "vLLM",
        "block-size: 16\nblock-size: 32\n",
        ["--block-size", "32"],
    ),
    "an alias": ("vLLM", "seed: &s 5\nmax-num-seqs: *s\n", ["--seed", "5", "--max-num-seqs", "5"]),
    "nothing": ("vLLM", "# only a comment\n", None),
    "a list of flags": ("vLLM", "- --block-size=32\n", None),
    "a number for a key": ("vLLM", "5: 6\n", None),
    "no YAML": ("vLLM", "a: [\n", None),
    "two documents": ("vLLM", "seed: 1\n---\nseed: 2\n", None),
    "a date in an object": ("vLLM", "kv-transfer-config: {a: 2026-01-01}\n", None),
    "SGLang: scalars": (
        "SGLang",
        "page-size: 32\nlog-level: debug\ntp: 1\n",
        ["--page-size", "32", "--log-level", "debug", "--tp", "1"],
    ),
    "SGLang: switches": (
        "SGLang",
        "trust-remote-code: true\nenable-metrics: false\n",
        ["--trust-remote-code"],
    ),
    "SGLang: an object": (
        "SGLang",
        "json-model-override-args: {a: 1}\n",
        ["--json-model-override-args", '{"a": 1}'],
    ),
    "SGLang: nothing": ("SGLang", "", []),
    "SGLang: a toggle": ("SGLang", "enable-tf32-matmul: true\n", None),
    "SGLang: a list of flags": ("SGLang", "- --page-size=32\n", None),
}


@pytest.mark.parametrize("name", FILES)
def test_words_of_a_config_file(name):
    what, text, want = FILES[name]
    call = CALLS[what]
    if want is None:
        with pytest.raises(ValueError, match=f"is no file that {call.engine} starts with"):
            config_file.words(kind(call.engine).config, call, "/etc/f.yaml", text)
    else:
        assert list(config_file.words(kind(call.engine).config, call, "/etc/f.yaml", text)) == want


TOO_MUCH = {
    "long": ("# " + "x" * 65_536, "is longer than 64 KiB"),
    "deep": ("a: " + "[" * 5_000, "nested more than 100 levels deep"),
    "aliases": (
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"{n}: &{n} [{', '.join([f'*{o}'] * 9)}]\n" for o, n in pairwise("abcdefg")),
        "aliases stand for more than",
    ),
    "digits": ("a: " + ":".join("1" * 9_000), "a number of more than 1000 digits"),
    "a bare --": ("chat-template: --\n", "holds a bare --"),
    "a bare -- for a key": ("'': true\n", "holds a bare --"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_oversized_or_opaque_files_are_refused(name):
    text, says = TOO_MUCH[name]
    with pytest.raises(ValueError, match=says):
        config_file.words(kind("vLLM").config, vllm(), "/etc/f.yaml", text)


@pytest.mark.parametrize(
    ("engine_name", "path", "taken"),
    [
        ("vLLM", "f.yml", True),
        ("vLLM", "f.YAML", False),
        ("vLLM", "f.json", False),
        ("SGLang", "f.YAML", True),
        ("SGLang", "f", False),
    ],
)
def test_config_file_needs_a_yaml_name(engine_name, path, taken):
    if taken:
        assert config_file.words(kind(engine_name).config, CALLS[engine_name], path, "seed: 1") == (
            "--seed",
            "1",
        )
    else:
        with pytest.raises(ValueError, match="has no name that ends in"):
            config_file.words(kind(engine_name).config, CALLS[engine_name], path, "seed: 1")


# name: (words, the file's words, the effective flags)
READ = {
    "the argv wins": (
        ["m", "--config", "f.yaml", "--block-size=16"],
        ["--block-size", "32", "--seed", "1"],
        {"--model": "m", "--seed": "1", "--block-size": "16"},
    ),
    "the argv wins, before it too": (
        ["m", "--no-enable-prefix-caching", "--config", "f.yaml"],
        ["--enable-prefix-caching"],
        {"--model": "m", "--no-enable-prefix-caching": None},
    ),
    "a model in the file": (
        ["--config", "f.yaml"],
        ["--model", "org/m"],
        {"--model": "org/m"},
    ),
    "a model in both": (
        ["m", "--config", "f.yaml"],
        ["--model", "org/m"],
        {"--model": "m"},
    ),
    "a model by flag": (
        ["--model=m", "--config", "f.yaml"],
        ["--model", "org/m"],
        {"--model": "m"},
    ),
    "a connector": (
        ["m", "--config", "f.yaml"],
        [KV, NIXL_WORD],
        {"--model": "m", KV: js(NIXL)},
    ),
    "a connector in both": (
        ["m", "--config", "f.yaml", KV, "{}"],
        [KV, NIXL_WORD],
        {"--model": "m", KV: "{}"},
    ),
    "a dotted one in the file beats the argv": (
        ["m", "--config", "f.yaml", KV, js(LMCACHE)],
        [f"{KV}.kv_connector", "NixlConnector"],
        {"--model": "m", KV: '{"kv_connector":"NixlConnector"}'},
    ),
    "not read": (["m", "--config=f.yaml"], [], {"--model": "m"}),
}


@pytest.mark.parametrize("name", READ)
def test_effective_flags(name):
    words, file, want = READ[name]
    read = kind("vLLM").read(vllm(*words, config=ConfigFile(tuple(file))))
    assert {name: value for name, value in read.items() if name != "--config"} == want


def test_model_of_an_sglang_config_file():
    file = ConfigFile(("--model-path", "org/m", "--page-size", "32"))
    call = sglang("--config", "f.yaml", config=file)
    assert kind("SGLang").read(call) == {
        "--config": "f.yaml",
        "--model-path": "org/m",
        "--page-size": "32",
    }
    call = sglang("m", "--config", "f.yaml", positional_model=True, config=file)
    assert kind("SGLang").read(call)["--model-path"] == "m"


OURS, BOTH = ["LMCacheMPConnector"], ["NixlConnector", "LMCacheMPConnector"]

# name: (injection, words, the file's words, the words after; or a reason and what is said)
EDITS = {
    "nothing of ours": (LMC, ["m", "--config", "f.yaml"], ["--seed", "1"], OURS),
    "the file's connector is merged, and overridden": (
        LMC, ["m", "--config", "f.yaml"], [KV, NIXL_WORD], BOTH,
    ),
    "the argv's connector is the user's": (
        LMC, ["m", "--config", "f.yaml", KV, js(NIXL)], [KV, "{}"], BOTH,
    ),
    "abbreviated in the file": (
        LMC, ["m", "--config", "f.yaml"], ["--kv-transfer-conf", NIXL_WORD], BOTH,
    ),
    "dotted in the file": (
        LMC,
        ["m", "--config", "f.yaml"],
        [f"{KV}.kv_connector", "NixlConnector", f"{KV}.kv_role", "kv_both"],
        ("ArgsNotPatchable", "kv-transfer-config.kv_connector in the file of --config beats"),
    ),
    "the offloading flag in the file": (
        LMC,
        ["m", "--config", "f.yaml"],
        ["--kv_offloading_size", "4"],
        ("ConnectorConflict", "--kv-offloading-size makes vLLM silently overwrite the connector"),
    ),
    "no JSON in the file": (
        LMC, ["m", "--config", "f.yaml"], [KV, "nixl"], ("ArgsNotPatchable", "is no JSON object"),
    ),
    "twice": (
        LMC,
        ["m", "--config", "f.yaml", "--config", "g.yaml"],
        [],
        ("ArgsNotPatchable", "--config stands there twice, and vLLM stops on it"),
    ),
    "another value of a flag of ours": (
        Injection("x", flags={"--block-size": "64"}),
        ["m", "--config", "f.yaml"],
        ["--block-size", "32"],
        ("ConnectorConflict", "--block-size"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edits_with_a_config_file(name):
    injection, words, file, want = EDITS[name]
    call = vllm(*words, config=ConfigFile(tuple(file)))
    if isinstance(want, tuple):
        with pytest.raises(Refused, match=want[1]) as refused:
            planned(call, engine(), injection).edits()
        assert refused.value.reason == want[0]
        return
    after = apply(call, planned(call, engine(), injection).edits())
    assert after[: words.index("f.yaml") + 1] == words[: words.index("f.yaml") + 1]
    read = vllm(*after, config=call.config)
    assert kind("vLLM").read(read)[KV] == kind("vLLM").read(vllm(*after))[KV]
    assert planned(read, engine(), injection).sets == ()
    assert [child["kv_connector"] for child in children(json.loads(after[-1]))] == want


def test_dollar_expressions_in_the_file_are_not_escaped():
    """Nothing expands a file; in the args the same text must be escaped."""
    config = '{"kv_connector": "NixlConnector", "kv_role": "kv_both", "engine_id": "$(POD)"}'
    call = vllm("m", "--config", "f.yaml", config=ConfigFile((KV, config)))
    after = apply(call, planned(call, engine(), LMC).edits())
    assert "$$(POD)" in after[-1]


def test_merged_file_gives_a_note():
    call = vllm("m", "--config", "f.yaml", config=ConfigFile((KV, NIXL_WORD)))
    assert "the kv-transfer-config of the --config file is in the args now" in str(
        planned(call, engine(), LMC).notes
    )


def test_opted_in_script_gets_the_file_flags():
    call = vllm("m", "--config", "f.yaml", opted_in=True, config=ConfigFile((KV, NIXL_WORD)))
    plan = planned(call, engine(), LMC)
    assert plan.edits() == []
    assert plan.opt_in().startswith(KV)
    assert "NixlConnector" in plan.opt_in()


def test_sglang_flags_in_a_config_file():
    def plan(*file: str) -> FlagPlan:
        call = sglang("--config", "f.yaml", config=ConfigFile(file))
        return planned(call, engine("SGLang", "0.5.23"), HICACHE)

    names = [item.name for item in plan("--page-size", "64", "--enable-hierarchical-cache").sets]
    assert names == ["--hicache-size", "--hicache-storage-backend"]
    for file, says in (
        (("--page-size", "16"), "--page-size"),
        (("--disable-radix-cache",), "--disable-radix-cache turns off"),
        (("--hicache-ratio", "2"), "--hicache-ratio 2"),
    ):
        with pytest.raises(Refused, match=says):
            plan(*file)
