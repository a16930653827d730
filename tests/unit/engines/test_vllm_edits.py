"""Words and an Injection -> edited words, whole."""

import json

import pytest

from function.command.model import Word
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.problems import Refused
from tests.unit.engines.helpers import (
    KV,
    LMC,
    LMCACHE,
    MOONCAKE,
    NIXL,
    OFFLOAD,
    RECOMPUTE,
    STORE,
    apply,
    engine,
    expansion,
    js,
    planned,
    vllm,
)

NATIVE = Injection("Native", connector=OFFLOAD, connector_options=RECOMPUTE)
MOON = Injection("Mooncake", connector=STORE, connector_options=RECOMPUTE)
TRANSFER = Injection("NIXL", connector=NIXL, connector_options=RECOMPUTE)


def multi(*children: dict, role: str = "kv_both", **top: object) -> dict:
    return {
        "kv_connector": "MultiConnector",
        "kv_role": role,
        **RECOMPUTE,
        "kv_connector_extra_config": {"connectors": list(children)},
        **top,
    }


ALONE = js({**LMCACHE, **RECOMPUTE})
PD = js(multi(NIXL, LMCACHE, role="kv_producer"))
N = js(NIXL)
V1 = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
FLAGS = Injection("x", flags={"--block-size": "64", "--enable-prefix-caching": None})
EVENTS = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv@$(POD_IP):8000@m"}

EDITS = [
    ("none yet", LMC, ["m", "--port", "1"], ["m", "--port", "1", KV, ALONE]),
    ("no words at all", LMC, [], [KV, ALONE]),
    ("before a bare --", LMC, ["m", "--", "x"], ["m", KV, ALONE, "--", "x"]),
    ("disabled by the user", LMC, ["m", KV, ""], ["m", KV, ALONE]),
    ("empty object", LMC, ["m", KV, "{}"], ["m", KV, ALONE]),
    ("two words", LMC, ["m", KV, N, "--port", "1"], ["m", KV, PD, "--port", "1"]),
    ("equals sign", LMC, ["m", f"{KV}={N}", "-x"], ["m", f"{KV}={PD}", "-x"]),
    ("underscores", LMC, ["m", "--kv_transfer_config", N], ["m", KV, PD]),
    ("underscores, equals sign", LMC, [f"--kv_transfer_config={N}"], [f"{KV}={PD}"]),
    ("abbreviation", LMC, ["m", "--kv-transfer-conf", N], ["m", KV, PD]),
    ("twice", LMC, ["m", KV, js(OFFLOAD), "-x", KV, N], ["m", "-x", KV, PD]),
    (
        "dotted",
        LMC,
        [
            "m",
            f"{KV}.kv_connector",
            "NixlConnector",
            "-x",
            "--kv_transfer-config.kv_role=kv_producer",
        ],
        ["m", "-x", KV, PD],
    ),
    (
        "dotted beside JSON",
        LMC,
        [
            "m",
            KV,
            js(OFFLOAD),
            f"{KV}.kv_connector",
            "NixlConnector",
            f"{KV}.kv_role",
            "kv_producer",
        ],
        ["m", KV, PD],
    ),
    (
        "twice the same, nothing to do",
        LMC,
        ["m", KV, ALONE, KV, ALONE],
        ["m", KV, ALONE, KV, ALONE],
    ),
    ("wired already", LMC, ["m", KV, ALONE], ["m", KV, ALONE]),
    ("wired already, merged", LMC, ["m", KV, PD], ["m", KV, PD]),
    ("typed by hand, without the policy", LMC, ["m", KV, js(LMCACHE)], ["m", KV, ALONE]),
    (
        "typed by hand, incomplete",
        LMC,
        [
            "m",
            KV,
            js(
                {
                    "kv_connector": "LMCacheMPConnector",
                    "kv_role": "kv_both",
                    "kv_connector_extra_config": {"lmcache.mp.host": "chat"},
                }
            ),
        ],
        [
            "m",
            KV,
            js(
                {
                    **LMCACHE,
                    **RECOMPUTE,
                    "kv_connector_extra_config": {
                        **LMCACHE["kv_connector_extra_config"],
                        "lmcache.mp.host": "chat",
                    },
                }
            ),
        ],
    ),
    (
        "the user's policy stays",
        LMC,
        ["m", KV, js({**NIXL, "kv_load_failure_policy": "fail"})],
        ["m", KV, js(multi(NIXL, LMCACHE, role="kv_producer", kv_load_failure_policy="fail"))],
    ),
    (
        "engine_id moves to the top",
        LMC,
        [KV, js({**NIXL, "engine_id": "e"})],
        [KV, js(multi(NIXL, LMCACHE, role="kv_producer", engine_id="e"))],
    ),
    (
        "other fields of the user's stay on both levels",
        LMC,
        [
            KV,
            js(
                {
                    **NIXL,
                    "kv_buffer_device": "cpu",
                    "kv_connector_extra_config": {"backends": ["UCX"]},
                }
            ),
        ],
        [
            KV,
            js(
                multi(
                    {
                        **NIXL,
                        "kv_buffer_device": "cpu",
                        "kv_connector_extra_config": {"backends": ["UCX"]},
                    },
                    LMCACHE,
                    role="kv_producer",
                    kv_buffer_device="cpu",
                )
            ),
        ],
    ),
    (
        "no role",
        LMC,
        [KV, '{"kv_connector":"NixlConnector"}'],
        [KV, js(multi({"kv_connector": "NixlConnector", "kv_role": "kv_both"}, LMCACHE))],
    ),
    (
        "into a MultiConnector",
        MOON,
        [KV, js(multi(NIXL, OFFLOAD, kv_load_failure_policy="fail"))],
        [KV, js(multi(NIXL, OFFLOAD, STORE, kv_load_failure_policy="fail"))],
    ),
    (
        "in the MultiConnector already, first",
        LMC,
        [KV, js(multi(LMCACHE, NIXL))],
        [KV, js(multi(LMCACHE, NIXL))],
    ),
    (
        "a child's engine_id",
        LMC,
        [KV, js(multi({**NIXL, "engine_id": "e"}))],
        [KV, js(multi(NIXL, LMCACHE, engine_id="e"))],
    ),
    (
        "Mooncake beside Mooncake Store",
        MOON,
        [KV, js(MOONCAKE)],
        [KV, js(multi(MOONCAKE, STORE, role="kv_consumer"))],
    ),
    ("two caches", LMC, [KV, js(OFFLOAD)], [KV, js(multi(OFFLOAD, LMCACHE))]),
    (
        "P/D with native offload",
        NATIVE,
        [KV, N],
        [KV, js(multi(NIXL, OFFLOAD, role="kv_producer"))],
    ),
    (
        "transfer goes before caches",
        TRANSFER,
        [KV, js(OFFLOAD)],
        [KV, js(multi(NIXL, OFFLOAD))],
    ),
    (
        "transfer goes before several caches",
        TRANSFER,
        [KV, js(multi(OFFLOAD, STORE))],
        [KV, js(multi(NIXL, OFFLOAD, STORE))],
    ),
    (
        "transfer that is there",
        TRANSFER,
        [KV, js(multi(OFFLOAD, NIXL))],
        [KV, js(multi(OFFLOAD, NIXL))],
    ),
    (
        "unknown value before",
        LMC,
        ["--port", expansion("$PORT"), KV, N],
        ["--port", "$PORT", KV, PD],
    ),
    ("model unknown", LMC, [expansion("$MODEL")], ["$MODEL", KV, ALONE]),
    (
        "config word made by Kubernetes",
        LMC,
        ["m", KV, Word(N, "$(C)", N, origin="$(C)")],
        ["m", KV, PD],
    ),
    ("flags", FLAGS, ["m"], ["m", "--block-size", "64", "--enable-prefix-caching"]),
    (
        "flags, one there",
        FLAGS,
        ["m", "--block_size=64"],
        ["m", "--block_size=64", "--enable-prefix-caching"],
    ),
    (
        "--config=FILE is not read by vLLM",
        LMC,
        ["m", "--config=f.yaml"],
        ["m", "--config=f.yaml", KV, ALONE],
    ),
    (
        "nothing to inject",
        Injection("x"),
        ["m", "--config", "f.yaml", expansion("$X")],
        ["m", "--config", "f.yaml", "$X"],
    ),
    ("events", Injection("x", kv_events=EVENTS), ["m"], ["m", "--kv-events-config", js(EVENTS)]),
    (
        "events of the user's stay",
        Injection("x", kv_events=EVENTS),
        ["m", "--kv-events-config", '{"enable_kv_cache_events":false}'],
        ["m", "--kv-events-config", '{"enable_kv_cache_events":false}'],
    ),
]


@pytest.mark.parametrize(
    ("injection", "words", "want"), [c[1:] for c in EDITS], ids=[c[0] for c in EDITS]
)
def test_edits(injection, words, want):
    call = vllm(*words)
    edits = planned(call, engine(), injection).edits()
    assert apply(call, edits) == want
    # Wiring what is wired changes nothing; expansions stand for themselves again.
    wired = vllm(
        *[next((w for w in call.words if w.text == t and w.value is None), t) for t in want]
    )
    assert planned(wired, engine(), injection).edits() == []


PATH = "kv_connector_extra_config."
REFUSED = [
    (
        "kv-offloading-size",
        LMC,
        ["m", "--kv-offloading-size", "4"],
        "ConnectorConflict",
        "--kv-offloading-size makes vLLM silently overwrite the connector",
    ),
    (
        "kv-offloading-backend",
        NATIVE,
        ["m", "--kv_offloading_backend=native"],
        "ConnectorConflict",
        "--kv-offloading-backend makes vLLM silently overwrite",
    ),
    (
        "config file",
        LMC,
        ["m", "--config", "/etc/f.yaml"],
        "ArgsNotPatchable",
        "--config /etc/f.yaml cannot be read from here",
    ),
    (
        "config file and a connector",
        LMC,
        ["m", "--config", "f.yaml", KV, N],
        "ArgsNotPatchable",
        "move the file's flags into the args",
    ),
    (
        "value at run time",
        LMC,
        ["m", KV, expansion('"$C"', many=False)],
        "ArgsNotPatchable",
        "has a value that is known only at run time",
    ),
    (
        "value at run time, attached",
        LMC,
        ["m", expansion(f'{KV}="$C"', f"{KV}=", many=False)],
        "ArgsNotPatchable",
        "has a value that is known only at run time",
    ),
    ("no value", LMC, ["m", KV], "ArgsNotPatchable", "has no value"),
    (
        "a last flag without its value",
        LMC,
        ["m", "--config"],
        "ArgsNotPatchable",
        "--config has no value; give it one",
    ),
    ("no JSON", LMC, ["m", KV, "nixl"], "ArgsNotPatchable", "is no JSON object"),
    ("null", LMC, ["m", KV, "null"], "ArgsNotPatchable", "is no JSON object"),
    ("quotes inside", LMC, ["m", KV, f"'{N}'"], "ArgsNotPatchable", "is no JSON object"),
    (
        "dotted value at run time",
        LMC,
        ["m", f"{KV}.kv_connector", expansion("$C")],
        "ArgsNotPatchable",
        f"{KV}.kv_connector has no value that can be read",
    ),
    ("ambiguous", LMC, ["m", "--kv-", N], "ArgsNotPatchable", "--kv- is ambiguous"),
    (
        "an expansion among the flags",
        LMC,
        ["m", expansion("$EXTRA_ARGS")],
        "ArgsNotPatchable",
        "word 2 of vllm serve, $EXTRA_ARGS, may hold any flag",
    ),
    (
        "a flag name made at run time",
        LMC,
        ["m", expansion("--kv-$X", "--kv-")],
        "ArgsNotPatchable",
        "may hold any flag",
    ),
    (
        "from env",
        LMC,
        ["m", Word(KV, KV, KV, origin="env A"), Word(N, N, N, origin="env A")],
        "ArgsNotPatchable",
        "--kv-transfer-config comes from env A; move it into the args",
    ),
    (
        "unknown connector",
        LMC,
        [KV, '{"kv_connector":"Mine","kv_role":"kv_both"}'],
        "ConnectorConflict",
        "has Mine, which is not known to work beside another connector",
    ),
    (
        "own module",
        LMC,
        [KV, js({**NIXL, "kv_connector_module_path": "mine.nixl"})],
        "ConnectorConflict",
        "from the module mine.nixl",
    ),
    (
        "gone",
        LMC,
        [KV, '{"kv_connector":"P2pNcclConnector","kv_role":"kv_both"}'],
        "ConnectorConflict",
        "vLLM dropped it in 0.24",
    ),
    (
        "closed",
        LMC,
        [KV, '{"kv_connector":"FlexKVConnectorV1","kv_role":"kv_both"}'],
        "ConnectorConflict",
        "not known to work beside",
    ),
    (
        "two ways from prefill to decode",
        TRANSFER,
        [KV, js(MOONCAKE)],
        "ConnectorConflict",
        "MooncakeConnector, the tier brings NixlConnector: an engine hands its blocks over one way",
    ),
    (
        "two ways of NIXL",
        TRANSFER,
        [KV, js(multi(OFFLOAD, {**NIXL, "kv_connector": "NixlPushConnector"}))],
        "ConnectorConflict",
        "one engine process has one NIXL side channel",
    ),
    ("two of one family", LMC, [KV, js(V1)], "ConnectorConflict", "holds one LMCache client"),
    (
        "two host memory caches",
        Injection(
            "x", connector={"kv_connector": "SimpleCPUOffloadConnector", "kv_role": "kv_both"}
        ),
        [KV, js(OFFLOAD)],
        "ConnectorConflict",
        "both keep blocks in the pod's host memory",
    ),
    (
        "another place",
        LMC,
        [KV, js({**LMCACHE, "kv_connector_extra_config": {"lmcache.mp.host": "tcp://mine"}})],
        "ConnectorConflict",
        f"the user's {PATH}lmcache.mp.host is 'tcp://mine', the tier's is 'tcp://chat'",
    ),
    (
        "another place, in a MultiConnector",
        LMC,
        [KV, js(multi(NIXL, {**LMCACHE, "kv_connector_extra_config": {"lmcache.mp.port": 1}}))],
        "ConnectorConflict",
        f"the user's {PATH}connectors[1].{PATH}lmcache.mp.port is 1, the tier's is 5555",
    ),
    (
        "twice in a MultiConnector",
        LMC,
        [KV, js(multi(LMCACHE, LMCACHE))],
        "ConnectorConflict",
        "lists LMCacheMPConnector 2 times",
    ),
    (
        "nested",
        LMC,
        [KV, js(multi(multi(NIXL)))],
        "ConnectorConflict",
        "is itself a MultiConnector",
    ),
    (
        "child without a role",
        LMC,
        [KV, js(multi({"kv_connector": "NixlConnector"}))],
        "ConnectorConflict",
        "connectors[0] has no kv_role",
    ),
    ("no children", LMC, [KV, js(multi())], "ConnectorConflict", "has no list of objects"),
    (
        "two engine ids",
        LMC,
        [KV, js(multi({**NIXL, "engine_id": "a"}, {**STORE, "engine_id": "b"}))],
        "ConnectorConflict",
        "engine_id ['a', 'b']",
    ),
    (
        "hybrid manager",
        Injection("x", connector=V1),
        ["m", "--enable-hybrid-kv-cache-manager"],
        "ConnectorConflict",
        "LMCacheConnectorV1 does not work with it",
    ),
    (
        "another flag value",
        FLAGS,
        ["m", "--block-size", "16"],
        "ConnectorConflict",
        "the user has --block-size 16, the tier needs --block-size 64",
    ),
    (
        "flag value at run time",
        FLAGS,
        ["m", "--block-size", expansion("$B")],
        "ConnectorConflict",
        "(known at run time only)",
    ),
    (
        "a switch the other way",
        FLAGS,
        ["m", "--block-size", "64", "--disable-prefix-caching"],
        "ConnectorConflict",
        "the user has --no-enable-prefix-caching",
    ),
    (
        "closed call",
        LMC,
        {"words": ["m"], "closed": "the script is run by make", "scripted": True},
        "ArgsNotPatchable",
        "the script is run by make; put $KV_OFFLOAD_ARGS (unquoted) there",
    ),
    (
        "closed call, where no shell would expand what opts in",
        LMC,
        {"words": ["m"], "closed": "there are no args"},
        "ArgsNotPatchable",
        "there are no args; add by hand",
    ),
    (
        "a secret of ours",
        Injection(
            "x",
            connector={
                **OFFLOAD,
                "kv_connector_extra_config": {
                    "secondary_tiers": [{"store_config": {"secret_key": "s"}}]
                },
            },
        ),
        ["m"],
        "CredentialInArgv",
        f"{PATH}secondary_tiers[0].store_config.secret_key",
    ),
]


@pytest.mark.parametrize(
    ("injection", "words", "reason", "message"),
    [c[1:] for c in REFUSED],
    ids=[c[0] for c in REFUSED],
)
def test_refused(injection, words, reason, message):
    given = dict(words) if isinstance(words, dict) else {"words": words}
    call = vllm(*given.pop("words"), **given)
    with pytest.raises(Refused) as found:
        planned(call, engine(), injection).edits()
    assert found.value.reason == reason
    assert message in found.value.message


def test_variable_in_the_users_json_is_not_expanded():
    raw = js({**NIXL, "engine_id": "$(POD_NAME)"})
    call = vllm("m", KV, Word(None, raw, raw.partition("$(")[0], origin="$(POD_NAME)"))
    edits = planned(call, engine(), LMC).edits()
    want = js(multi(NIXL, LMCACHE, role="kv_producer", engine_id="$(POD_NAME)"))
    assert apply(call, edits) == ["m", KV, want]
    assert [e.expand for e in edits if hasattr(e, "expand")] == [False, True]
    wired = vllm("m", KV, Word(None, want, "{", origin="$(POD_NAME)"))
    assert planned(wired, engine(), LMC).edits() == []


def test_a_literal_dollar_of_the_user_is_escaped_when_kubernetes_may_expand():
    user = {**NIXL, "engine_id": "$(NOT_A_VARIABLE)"}
    ours = Injection("x", connector={**STORE, "kv_connector_extra_config": {"a": "$(POD_IP)"}})
    edits = planned(vllm("m", KV, js(user)), engine(), ours).edits()
    [edit] = edits
    assert edit.expand
    config = json.loads(edit.value)
    assert config["engine_id"] == "$$(NOT_A_VARIABLE)"
    assert config["kv_connector_extra_config"]["connectors"][1] == ours.connector


def test_unset_template_variable_is_empty():
    call = vllm("m", expansion("${VLLM_ADDITIONAL_ARGS}"), "--port", "1")
    unset = Engine("vLLM", "0.33.0", env={"OTHER": "x"})
    assert apply(call, planned(call, unset, LMC).edits())[-2:] == [KV, ALONE]
    assert planned(call, unset, LMC).notes == (
        "${VLLM_ADDITIONAL_ARGS} is taken as empty: the container's env does not set it",
    )
    for value in (None, "--port 2"):
        with pytest.raises(Refused, match="may hold any flag"):
            planned(call, Engine("vLLM", env={"VLLM_ADDITIONAL_ARGS": value}), LMC).edits()


def test_notes():
    def notes(injection, *words):
        return planned(vllm(*words), engine(), injection).notes

    assert notes(LMC, "m") == ()
    assert notes(LMC, KV, js({**NIXL, "kv_load_failure_policy": "fail"})) == (
        "kv_load_failure_policy stays 'fail' as the user set it; the tier asks 'recompute'",
    )
    assert notes(Injection("x", connector=V1), "m") == (
        "LMCacheConnectorV1 turns vLLM's hybrid KV cache manager off; models with Mamba or linear "
        "attention layers do not start with it",
    )
    assert notes(LMC, "m", "--config=f.yaml") == (
        "vLLM ignores --config=FILE; only the two words --config FILE are read",
    )
    events = notes(Injection("x", kv_events=EVENTS), "--kv-events-config", "{}")
    assert events == (f"--kv-events-config stays as the user wrote it; the tier asks {js(EVENTS)}",)


def test_positional_expansion_is_not_renamed():
    """The parser reads `$@` in an eval as `${_}`; the message must not show that name."""
    call = vllm("m", expansion("${_}"))
    with pytest.raises(Refused, match="word 2 of vllm serve, an expansion, may hold any flag"):
        planned(call, engine(), LMC).edits()
