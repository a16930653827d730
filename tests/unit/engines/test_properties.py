"""Wiring any command is idempotent and deterministic, and keeps the flags of the user."""

import json

from hypothesis import given
from hypothesis import strategies as st

from function.contract.injection import Injection
from function.engines.registry import kind
from function.engines.vllm import connectors
from function.engines.vllm.merge import children
from function.problems import Refused
from kv_offload.docs.reasons import REASONS
from tests.unit.engines.helpers import (
    KV,
    LMCACHE,
    OFFLOAD,
    RECOMPUTE,
    STORE,
    apply,
    engine,
    js,
    planned,
    vllm,
)

names = st.sampled_from([*sorted(set(connectors.known()) - {"MultiConnector"}), "Unknown"])
extra = st.dictionaries(
    st.sampled_from(["a", "backends", "lmcache.mp.port", "cpu_bytes_to_use"]),
    st.one_of(st.integers(), st.booleans(), st.text(max_size=4), st.lists(st.integers())),
    max_size=3,
)
connector = st.fixed_dictionaries(
    {"kv_connector": names, "kv_role": st.sampled_from(["kv_both", "kv_producer", "kv_consumer"])},
    optional={
        "kv_connector_extra_config": extra,
        "kv_port": st.integers(1, 65535),
        "kv_buffer_device": st.sampled_from(["cpu", "cuda"]),
        "engine_id": st.sampled_from(["a", "b"]),
        "kv_load_failure_policy": st.sampled_from(["fail", "recompute"]),
    },
)
several = st.builds(
    lambda found, top: {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": found},
        **top,
    },
    st.lists(connector, min_size=1, max_size=3),
    st.fixed_dictionaries({}, optional={"engine_id": st.just("a")}),
)
config = st.one_of(connector, several)

FORMS = (
    lambda v: [KV, v],
    lambda v: [f"{KV}={v}"],
    lambda v: ["--kv_transfer_config", v],
    lambda v: [f"--kv-transfer-con={v}"],
    lambda v: [KV, "{}", KV, v],
)
spelled = st.builds(lambda form, value: form(js(value)), st.sampled_from(FORMS), config)
around = st.lists(
    st.sampled_from(["--enforce-eager", "--port=1", "-tp=2", "--seed=-1"]), max_size=3
)
injections = st.sampled_from(
    [
        Injection("x", connector=child, connector_options=RECOMPUTE)
        for child in (LMCACHE, OFFLOAD, STORE)
    ]
)


def wire(words: list[str], injection: Injection) -> list[str] | None:
    call = vllm(*words)
    try:
        edits = planned(call, engine(), injection).edits()
    except Refused as refused:
        assert refused.reason in REASONS
        assert refused.message
        return None
    assert edits == planned(call, engine(), injection).edits()
    return apply(call, edits)


def effective(words: list[str]) -> dict:
    return json.loads(kind("vLLM").read(vllm(*words)).get(KV) or "{}")


@given(around, spelled, around, injections)
def test_idempotent_and_nothing_lost(before, users, after, injection):
    words = ["m", *before, *users, *after]
    user, wired = effective(words), wire(words, injection)
    if wired is None:
        return
    assert wire(wired, injection) == wired
    result = effective(wired)
    mine, got = children(user), children(result)
    ours = injection.connector
    # The user's first, in their order, each with everything it had.
    for one, now in zip(mine, got, strict=False):
        kept = {k: v for k, v in one.items() if k not in ("engine_id", "kv_load_failure_policy")}
        assert _within(kept, now)
    # Ours exactly once.
    assert [c["kv_connector"] for c in got].count(ours["kv_connector"]) == 1
    assert len(got) == len(mine) + (ours["kv_connector"] not in [c["kv_connector"] for c in mine])
    policy = user.get("kv_load_failure_policy", "recompute")
    assert result["kv_load_failure_policy"] == policy
    ids = {c["engine_id"] for c in [user, *mine] if "engine_id" in c}
    assert {result.get("engine_id")} - {None} == ids
    assert all("engine_id" not in c for c in got if result["kv_connector"] == "MultiConnector")
    # Everything else on the command line is where it was.
    others = [w for w in words if w in {"m", *before, *after}]
    assert [w for w in wired if w in {"m", *before, *after}] == others


def _within(part, whole) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(k in whole and _within(v, whole[k]) for k, v in part.items())
    return part == whole


@given(around, injections)
def test_connector_of_the_tier_is_appended_unchanged(words, injection):
    wired = wire(["m", *words], injection)
    want = {**injection.connector, **RECOMPUTE}
    assert wired == ["m", *words, KV, js(want)]


@given(st.lists(st.text(max_size=12), max_size=8), injections)
def test_wiring_arbitrary_words_is_idempotent(words, injection):
    words = [w for w in words if w != "--"]
    wired = wire(words, injection)
    if wired is not None:
        assert wire(wired, injection) == wired


flagged = st.lists(
    st.sampled_from(
        [
            KV,
            "--kv-transfer-conf",
            "--kv",
            f"{KV}.a",
            f"{KV}.a+",
            "--kv_transfer_config.b.c=1",
            "--no-x",
            "-tp",
            "--config",
            "f",
            "{}",
            "",
            "None",
            "--",
            "--kv-events-config",
            js(LMCACHE),
            js(OFFLOAD),
            "-1",
            "--enable-prefix-caching",
            "--port",
        ]
    ),
    max_size=8,
)


@given(flagged, injections)
def test_wiring_shuffled_flags_is_idempotent(words, injection):
    wired = wire(words, injection)
    if wired is not None:
        assert wire(wired, injection) == wired
