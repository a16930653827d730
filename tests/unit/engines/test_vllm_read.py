"""Words -> effective flags. What the real parser of vLLM 0.33.0 made of the same words is written
here from a run of it; `tests/conformance` repeats the comparison."""

import json

import pytest

from function.command.model import Word
from function.engines.registry import kind
from tests.unit.command import work
from tests.unit.engines.helpers import KV, NIXL, OFFLOAD, expansion, js, vllm

N, O = js(NIXL), js(OFFLOAD)  # noqa: E741


def dotted(flag: str, connector: str, role: str = "kv_both") -> list[str]:
    return [f"{flag}.kv_connector", connector, f"{flag}.kv_role", role]


BOTH = {"kv_role": "kv_both"}

TRANSFER = [
    ("two words", ["m", KV, N], NIXL),
    ("equals sign", ["m", f"{KV}={N}"], NIXL),
    ("underscores", ["m", "--kv_transfer_config", N], NIXL),
    ("underscores, equals sign", ["m", f"--kv_transfer_config={N}"], NIXL),
    ("mixed", ["m", "--kv_transfer-config", N], NIXL),
    ("abbreviation", ["m", "--kv-transfer-conf", N], NIXL),
    ("shortest abbreviation", ["m", "--kv-t", N], NIXL),
    ("before the model", [KV, N, "m"], NIXL),
    ("twice", ["m", KV, N, KV, O], OFFLOAD),
    ("twice, second abbreviated", ["m", KV, N, "--kv-transfer-conf", O], OFFLOAD),
    ("twice, first abbreviated", ["m", "--kv-transfer-conf", N, KV, O], OFFLOAD),
    ("disabled", ["m", KV, ""], None),
    ("disabled by None", ["m", KV, "None"], None),
    ("disabled by the second", ["m", KV, N, f"{KV}="], None),
    ("absent", ["m", "--port", "8000"], None),
    ("empty object", ["m", KV, "{}"], {}),
    ("white space around", ["m", KV, f" {N}\n"], NIXL),
    (
        "a plain number",
        ["m", KV, '{"kv_port": 14g, "engine_id": "80g"}'],
        {"kv_port": 14 * 10**9, "engine_id": "80g"},
    ),
    (
        "a binary number",
        ["m", KV, '{"kv_connector_extra_config":{"cpu_bytes_to_use":2K}}'],
        {"kv_connector_extra_config": {"cpu_bytes_to_use": 2048}},
    ),
    ("dotted", ["m", *dotted(KV, "NixlConnector")], {"kv_connector": "NixlConnector", **BOTH}),
    (
        "dotted beats JSON before it",
        ["m", KV, O, *dotted(KV, "NixlConnector")],
        {"kv_connector": "NixlConnector", **BOTH},
    ),
    (
        "dotted beats JSON after it",
        ["m", *dotted(KV, "NixlConnector"), KV, O],
        {"kv_connector": "NixlConnector", **BOTH},
    ),
    (
        "dotted, mixed dashes",
        [
            "m",
            "--kv_transfer-config.kv_connector=NixlConnector",
            "--kv-transfer_config.kv_role=kv_both",
        ],
        {"kv_connector": "NixlConnector", **BOTH},
    ),
    (
        "dotted, dashes behind the dot are kept (and vLLM stops on them)",
        ["m", f"{KV}.kv-connector", "NixlConnector"],
        {"kv-connector": "NixlConnector"},
    ),
    (
        "dotted append",
        [
            "m",
            *dotted(KV, "NixlConnector"),
            f"{KV}.kv_connector_extra_config.backends+",
            "UCX,GDS",
            f"{KV}.kv_connector_extra_config.backends+=OBJ",
            f"{KV}.kv_port",
            "1k",
        ],
        {
            "kv_connector": "NixlConnector",
            **BOTH,
            "kv_port": 1000,
            "kv_connector_extra_config": {"backends": ["UCX", "GDS", "OBJ"]},
        },
    ),
    (
        "dotted in two spellings: the later first appearance wins, whole",
        ["m", *dotted("--kv-transfer-conf", "NixlConnector"), *dotted(KV, "OffloadingConnector")],
        {"kv_connector": "OffloadingConnector", **BOTH},
    ),
    (
        "dotted value types",
        [
            "m",
            f"{KV}.kv_connector_extra_config.a",
            "true",
            f"{KV}.kv_connector_extra_config.b",
            "1.5",
            f"{KV}.kv_connector_extra_config.c",
            '{"d": [1]}',
            f"{KV}.kv_connector_extra_config.e",
            "007",
            f"{KV}.kv_connector_extra_config.f",
            "None",
        ],
        {"kv_connector_extra_config": {"a": True, "b": 1.5, "c": {"d": [1]}, "e": 7, "f": "None"}},
    ),
    ("behind a bare -- nothing is a flag", ["m", "--", KV, N], None),
]


@pytest.mark.parametrize(("words", "want"), [c[1:] for c in TRANSFER], ids=[c[0] for c in TRANSFER])
def test_transfer_config(words, want):
    found = kind("vLLM").read(vllm(*words)).get(KV)
    assert (None if found is None else json.loads(found)) == want
    assert found is None or found == js(want)


OTHERS = [
    ("model first", ["m", "-tp", "8"], {"--model": "m", "--tensor-parallel-size": "8"}),
    ("short form, equals sign", ["-tp=8"], {"--tensor-parallel-size": "8"}),
    ("short form, attached", ["-n2"], {"--nnodes": "2"}),
    ("no such short form", ["m", "-tp8"], {"--model": "m", "-tp8": None}),
    ("--model is the model", ["--model=m", "--port", "1"], {"--model": "m", "--port": "1"}),
    (
        "a switch takes no value",
        ["--enable-prefix-caching", "m"],
        {"--enable-prefix-caching": None, "--model": "m"},
    ),
    (
        "switched off",
        ["m", "--no-enable-prefix-caching"],
        {"--model": "m", "--no-enable-prefix-caching": None},
    ),
    (
        "switched off, newer form",
        ["m", "--disable-prefix-caching"],
        {"--model": "m", "--no-enable-prefix-caching": None},
    ),
    (
        "the last of the two",
        ["--no-enable-prefix-caching", "--enable-prefix-caching"],
        {"--enable-prefix-caching": None},
    ),
    (
        "the last of the two, reversed",
        ["--enable-prefix-caching", "--disable-prefix-caching"],
        {"--no-enable-prefix-caching": None},
    ),
    (
        "a --disable- switch, on",
        ["--disable-hybrid-kv"],
        {"--disable-hybrid-kv-cache-manager": None},
    ),
    (
        "a --disable- switch, off",
        ["--enable-hybrid-kv-cache-manager"],
        {"--no-disable-hybrid-kv-cache-manager": None},
    ),
    ("abbreviated off", ["--no-enable-prefix-c"], {"--no-enable-prefix-caching": None}),
    (
        "several values",
        ["m", "--served-model-name", "a", "b c", "--port", "1"],
        {"--model": "m", "--served-model-name": "a 'b c'", "--port": "1"},
    ),
    ("last one wins", ["--block-size", "16", "--block_size=32"], {"--block-size": "32"}),
    ("negative number", ["--seed", "-1"], {"--seed": "-1"}),
    ("unknown flags", ["--new-thing", "x", "--other"], {"--new-thing": "x", "--other": None}),
    ("a dot in a value", ["--gpu-memory-utilization=0.9"], {"--gpu-memory-utilization": "0.9"}),
    ("value known at run time", ["--port", expansion("$PORT")], {"--port": None}),
    ("value known at run time, attached", [expansion("--port=$PORT", "--port=")], {"--port": None}),
    (
        "model known at run time",
        [expansion('"$MODEL"', many=False), "--port", "1"],
        {"--model": None, "--port": "1"},
    ),
    ("config known at run time", [KV, expansion("$C")], {KV: None}),
    ("no JSON", [KV, "nixl"], {KV: None}),
    ("expanded by Kubernetes", [KV, Word(N, "$(CONF)", N, origin="$(CONF)")], {KV: N}),
]


@pytest.mark.parametrize(("words", "want"), [c[1:] for c in OTHERS], ids=[c[0] for c in OTHERS])
def test_flags_are_read(words, want):
    assert kind("vLLM").read(vllm(*words)) == want


def test_positional_model_is_ignored_by_the_module():
    call = vllm("m", "--port", "1", positional_model=False)
    assert kind("vLLM").read(call) == {"--port": "1"}


DEEP = "[" * 100_000
DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "words",
    [
        ("--kv-transfer-config", '{"a": ' + DEEP),
        ("--kv-transfer-config", '{"a":' * 20_000 + "1" + "}" * 20_000),
        ("--kv-transfer-config", '{"a": ' + DIGITS + "}"),
        ("--kv-transfer-config", '{"a": ' + DIGITS + "g}"),
        ("--kv-transfer-config", '"' + '\\"' * 50_000),
        ("--kv-transfer-config." + "a." * 20_000 + "b", "1"),
    ],
    ids=lambda words: words[0][:24] + words[-1][:12],
)
def test_unreadable_transfer_config_is_unknown(words):
    """Deep nesting and long numbers raise only Refused, at a cost linear in their length."""
    call = vllm("m", *words)
    assert kind("vLLM").read(call)["--kv-transfer-config"] is None
    assert work.calls(lambda: kind("vLLM").read(call)) < 1_000_000


@pytest.mark.parametrize("value", [DIGITS, DIGITS + "g", DIGITS + "K", DEEP])
def test_dotted_value_that_is_no_number_is_a_string(value):
    found = kind("vLLM").read(vllm("m", "--kv-transfer-config.a", value))
    assert found["--kv-transfer-config"] == js({"a": value})


def test_reading_flags_costs_linear_time():
    """Twice the flags are twice the work, whether they are known, repeated, dotted or not."""
    for flag in ("--unknown{}", "--a{}.b", "--kv-transfer-config.b{}", "--port", "--kv"):
        spent = []
        for n in (1000, 2000):
            call = vllm("m", *(word for i in range(n) for word in (flag.format(i), "1")))
            spent.append(work.calls(lambda call=call: kind("vLLM").read(call)))
        assert spent[1] <= 2.2 * spent[0], (flag, spent)
