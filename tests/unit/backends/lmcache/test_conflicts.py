"""Which engines are refused, and with what reason."""

from typing import Any

import pytest

from function.api.engines import SGLANG, VLLM
from function.backends.lmcache import BACKEND, conflicts
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.problems import Refused
from kv_offload.docs.reasons import REASONS
from tests.unit.backends.lmcache import server, tier

ISOLATED = server()
SHARED = server(ipc="SharedMemory")
INSIDE = tier({"lmcache": {"mode": "InProcess", "inProcess": {}}})
FILES = tier(
    {
        "lmcache": {
            "mode": "InProcess",
            "inProcess": {
                "remote": {"type": "SharedFileSystem", "sharedFileSystem": {"claimName": "kv"}}
            },
        }
    }
)
REDIS = tier(
    {
        "lmcache": {
            "mode": "InProcess",
            "inProcess": {"remote": {"type": "Redis", "redis": {"host": "r"}}},
        }
    }
)
SEED = {"PYTHONHASHSEED": "1"}


def _vllm(version: str | None = "0.33.0", **facts: Any) -> Engine:
    return Engine(VLLM, version, **({"identity": "0123456789ab"} | facts))


def _sglang(version: str | None = "0.5.23", **facts: Any) -> Engine:
    return Engine(SGLANG, version, **({"identity": "0123456789ab"} | facts))


def _expandable(name: str, value: str = "expandable_segments:True") -> Engine:
    return _vllm(env={name: value})


REFUSED: tuple[tuple[str, Tier, Engine, str, str], ...] = (
    ("gang", ISOLATED, _vllm(pods=2), "EngineUnsupported", "spans 2 pods"),
    (
        "ray",
        ISOLATED,
        _vllm(pods=2, needs_ray=True),
        "EngineUnsupported",
        "2 pods (Ray chooses the pods",
    ),
    ("alloc", ISOLATED, _expandable("PYTORCH_ALLOC_CONF"), "ConnectorConflict", "PYTORCH_ALLOC"),
    (
        "cuda alloc",
        SHARED,
        _expandable("PYTORCH_CUDA_ALLOC_CONF", "a:1, expandable_segments: True"),
        "ConnectorConflict",
        "PYTORCH_CUDA_ALLOC_CONF",
    ),
    (
        "hip alloc",
        INSIDE,
        _expandable("PYTORCH_HIP_ALLOC_CONF"),
        "ConnectorConflict",
        "PYTORCH_HIP_ALLOC_CONF",
    ),
    (
        "sleep",
        ISOLATED,
        _vllm(flags={"--enable-sleep-mode": None}),
        "ConnectorConflict",
        "--enable-sleep-mode",
    ),
    (
        "one process",
        ISOLATED,
        _vllm(env={"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}),
        "EngineUnsupported",
        "VLLM_ENABLE_V1_MULTIPROCESSING",
    ),
    (
        "lora inside",
        INSIDE,
        _vllm(flags={"--enable-lora": None}),
        "CacheIdentityConflict",
        "--enable-lora",
    ),
    (
        "lora, SGLang",
        SHARED,
        _sglang(flags={"--lora-paths": "sql=/a"}),
        "CacheIdentityConflict",
        "--lora-paths",
    ),
    (
        "block size",
        ISOLATED,
        _vllm(flags={"--block-size": "96"}),
        "ConnectorConflict",
        "--block-size 96 (spec.lmcache.chunkTokens is 256)",
    ),
    ("sglang isolated", ISOLATED, _sglang(), "EngineUnsupported", "ipc Isolated"),
    ("phase", SHARED, _sglang(phase="Decode"), "EngineUnsupported", "Decode"),
    (
        "page size",
        SHARED,
        _sglang(flags={"--page-size": "100"}),
        "ConnectorConflict",
        "--page-size 100",
    ),
    (
        "chunk by env",
        INSIDE,
        _vllm(env={"LMCACHE_CHUNK_SIZE": "128"}),
        "ConnectorConflict",
        "LMCACHE_CHUNK_SIZE",
    ),
    (
        "random seed",
        INSIDE,
        _vllm(env={"PYTHONHASHSEED": "random"}),
        "ConnectorConflict",
        "PYTHONHASHSEED is random",
    ),
    *(
        (f"no identity, {name}", of, _vllm(identity=""), "CacheIdentityConflict", part)
        for name, of in (("server", ISOLATED), ("files", FILES), ("redis", REDIS))
        for part in ("kv-offload-cache-identity",)
    ),
    (
        "no identity, SGLang",
        SHARED,
        _sglang(identity=""),
        "CacheIdentityConflict",
        "cache identity is unknown",
    ),
    (
        "other plugins",
        SHARED,
        _sglang(env={"SGLANG_PLUGINS": "tracer, my-kv-offload-lmcache"}),
        "ConnectorConflict",
        "Add that name",
    ),
)


@pytest.mark.parametrize(
    ("of", "engine", "reason", "part"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refused(of: Tier, engine: Engine, reason: str, part: str) -> None:
    with pytest.raises(Refused) as refused:
        BACKEND.inject(of, engine)
    assert (refused.value.reason, part in refused.value.message) == (reason, True)
    assert refused.value.reason in REASONS


ACCEPTED: tuple[tuple[str, Tier, Engine], ...] = (
    ("plain", ISOLATED, _vllm()),
    ("own image", ISOLATED, _vllm(None, image="lmcache/vllm-openai:v0.5.6@sha256:00")),
    ("old client, old way", SHARED, _vllm(None, image="mirror/lmcache/vllm-openai:v0.5.4")),
    ("allocator", ISOLATED, _expandable("PYTORCH_ALLOC_CONF", "expandable_segments:False")),
    ("allocator by reference", ISOLATED, _vllm(env={"PYTORCH_ALLOC_CONF": None})),
    ("fitting block", ISOLATED, _vllm(flags={"--block-size": "128"})),
    ("unknown block", ISOLATED, _vllm(flags={"--block-size": None})),
    ("prefill", ISOLATED, _vllm(phase="Prefill")),
    ("sglang", SHARED, _sglang(flags={"--disaggregation-mode": "null", "--dcp-size": "1"})),
    ("our plugin", SHARED, _sglang(env={"SGLANG_PLUGINS": "tracer, kv-offload-lmcache"})),
    ("plugins by reference", SHARED, _sglang(env={"SGLANG_PLUGINS": None})),
    ("no plugins named", SHARED, _sglang(env={"SGLANG_PLUGINS": ""})),
    ("gang inside", INSIDE, _vllm(pods=4)),
    ("sleep inside", INSIDE, _vllm(flags={"--enable-sleep-mode": None})),
    ("equal seed", INSIDE, _vllm(env={"PYTHONHASHSEED": "0"})),
    ("another seed", INSIDE, _vllm(env=SEED)),
    ("dynamic seed", INSIDE, _vllm(env={"PYTHONHASHSEED": None})),
)


@pytest.mark.parametrize(
    ("of", "engine"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED]
)
def test_accepted(of: Tier, engine: Engine) -> None:
    assert BACKEND.inject(of, engine).backend == "LMCache"


def test_every_table_row_refuses_a_case() -> None:
    """Each row of the table refuses something above, and no test passes by another row."""
    messages = set()
    for _, of, engine, _, _ in REFUSED:
        with pytest.raises(Refused) as refused:
            BACKEND.inject(of, engine)
        messages |= {part.message for part in refused.value.parts}
    for row in conflicts.CONFLICTS.rows:
        head, _, tail = row.message.partition("<found>")
        assert any(m.startswith(head) and tail in m for m in messages), row.message


@pytest.mark.parametrize(
    ("seed", "said"),
    [
        ({}, ""),
        ("0", ""),
        ("1", "PYTHONHASHSEED is 1 in the pod and 0"),
        (None, "not a plain value"),
    ],
)
def test_other_hash_seed_gives_a_note(seed: str | None | dict[str, str], said: str) -> None:
    env = {} if seed == {} else {"PYTHONHASHSEED": seed}
    for of, expected in ((INSIDE, said), (ISOLATED, "")):
        text = "".join(BACKEND.gate(of, _vllm(env=env)).notes)
        assert (expected in text) and bool(text) == bool(expected)
