"""Which prefill and decode engines are compatible."""

from typing import Any

import pytest

from function.api.engines import SGLANG, VLLM
from function.backends.nixl import BACKEND
from function.contract.engine import Engine
from function.problems import Refused
from tests.unit.backends.nixl import engine, nixl

TP = "--tensor-parallel-size"


def pair(prefill: Engine, **facts: Any) -> list[Engine]:
    return [prefill, engine(prefill.name, phase="Decode", **facts)]


# engines -> the reason, and what the message says
REFUSED: dict[str, tuple[list[Engine], str, str]] = {
    "versions": (
        pair(engine(), version="0.32.0"),
        "VersionMismatch",
        "Prefill is vLLM 0.33.0 and decode 0.32.0",
    ),
    "models": (
        pair(engine(model="/mnt/models"), model="Qwen/Qwen3-8B"),
        "ConnectorConflict",
        "The model argument is /mnt/models at prefill and Qwen/Qwen3-8B at decode",
    ),
    "the cache's dtype": (
        pair(engine(flags={"--kv-cache-dtype": "fp8"})),
        "ConnectorConflict",
        "--kv-cache-dtype is fp8 at prefill and auto at decode",
    ),
    "the dtype": (
        pair(engine(), flags={"--dtype": "half"}),
        "ConnectorConflict",
        "--dtype is auto at prefill and half at decode",
    ),
    "block sizes": (
        pair(engine(flags={"--block-size": "16"}), flags={"--block-size": "64"}),
        "ConnectorConflict",
        "--block-size is 16 at prefill and 64 at decode",
    ),
    "attention": (
        pair(
            engine(flags={"--attention-backend": "FLASH_ATTN"}),
            flags={"--attention-backend": "FLASHINFER"},
        ),
        "ConnectorConflict",
        "--attention-backend is FLASH_ATTN",
    ),
    "ranks": (
        pair(engine(flags={TP: "4"}), flags={TP: "6"}),
        "EngineUnsupported",
        "one must divide the other",
    ),
    "two kinds": (
        [engine(), engine(SGLANG, phase="Decode")],
        "EngineUnsupported",
        "The prefill engine is vLLM and the decode engine SGLang",
    ),
    "SGLang's pages": (
        pair(engine(SGLANG, flags={"--page-size": "64"}), flags={"--page-size": "32"}),
        "ConnectorConflict",
        "--page-size is 64 at prefill and 32 at decode",
    ),
    "the dtype of SGLang's cache": (
        pair(engine(SGLANG), flags={"--kv-cache-dtype": "fp8_e5m2"}),
        "ConnectorConflict",
        "--kv-cache-dtype is auto",
    ),
    "SGLang's dtype, of which its cache's is made": (
        pair(engine(SGLANG), flags={"--dtype": "float32"}),
        "ConnectorConflict",
        "--dtype is auto at prefill and float32 at decode: SGLang does not compare it, and decode",
    ),
    "the second of two": (
        [*pair(engine()), engine(phase="Decode", version="0.31.0")],
        "VersionMismatch",
        "decode 0.31.0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    engines, reason, words = REFUSED[case]
    with pytest.raises(Refused) as refused:
        BACKEND.agree(nixl(), engines)
    assert refused.value.reason == reason
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "engines",
    (
        [],
        [engine()],
        pair(engine()),
        pair(engine(flags={TP: "2"}), flags={TP: "8"}),
        pair(engine(flags={TP: "8"}), flags={TP: "2"}),
        pair(engine(flags={TP: "3"}), flags={TP: None}),
        # Who chooses by itself may choose alike, and who says nothing may be alike.
        pair(engine(flags={"--block-size": "16"})),
        pair(engine(flags={"--attention-backend": "FLASH_ATTN"})),
        pair(engine(flags={"--dtype": "half"}), flags={"--dtype": None}),
        pair(engine(version=None), version="0.32.0"),
        pair(engine(model="/mnt/models")),
        # SGLang compares neither.
        pair(engine(SGLANG, model="/a", version="0.5.22"), model="/b"),
        # Of two prefill engines neither hands over to the other.
        [engine(), engine(version="0.32.0")],
        [engine(VLLM), engine(SGLANG)],
    ),
)
def test_agreed(engines: list[Engine]) -> None:
    BACKEND.agree(nixl(), engines)
