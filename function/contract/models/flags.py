"""What an engine's own flags prove of the model: nobody writes them for another kind."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from function.api.engines import SGLANG, VLLM
from function.contract.engine import Engine
from function.contract.models.families import (
    HYBRID,
    MLA,
    MULTIMODAL,
    PIPELINE,
    POOLING,
    SLIDING,
    SPARSE,
    SPECULATIVE,
    of_architecture,
)


@dataclass(frozen=True)
class Flag:
    """`name`: a flag, or the beginning of several with `*`. `values`: those that prove it, () for
    any value and for a switch."""

    engine: str
    name: str
    family: str
    source: str
    values: tuple[str, ...] = ()


_ARGS = "vLLM 0.33.0's engine/arg_utils.py"
_SERVER = "SGLang 0.5.23's server arguments"

FLAGS: tuple[Flag, ...] = (
    Flag(VLLM, "--mamba-*", HYBRID, _ARGS),
    Flag(VLLM, "--enable-mamba-*", HYBRID, _ARGS),
    Flag(VLLM, "--speculative-*", SPECULATIVE, _ARGS),
    Flag(VLLM, "--spec-*", SPECULATIVE, _ARGS),
    Flag(VLLM, "--runner", POOLING, _ARGS, ("pooling",)),
    Flag(VLLM, "--convert", POOLING, _ARGS, ("embed", "classify", "reward")),
    Flag(VLLM, "--task", POOLING, "vLLM before 0.12", ("embed", "classify", "score", "reward")),
    Flag(VLLM, "--limit-mm-per-prompt", MULTIMODAL, _ARGS),
    Flag(VLLM, "--mm-*", MULTIMODAL, _ARGS),
    *(
        Flag(VLLM, name, family, "vLLM 0.33.0: for DeepSeek's sparse attention alone", values)
        for name, values in (
            ("--tokenizer-mode", ("deepseek_v32", "deepseek_v4", "deepseek_v41")),
            ("--kv-cache-dtype", ("fp8_ds_mla",)),
        )
        for family in (MLA, SPARSE)
    ),
    Flag(VLLM, "--omni", PIPELINE, "vLLM-Omni's entrypoints"),
    *(
        Flag(SGLANG, name, PIPELINE, "SGLang 0.5.23's multimodal_gen: the arguments of its server")
        for name in ("--num-gpus", "--ulysses-degree", "--dit-*", "--vae-*", "--text-encoder-*")
    ),
    Flag(SGLANG, "--mamba-*", HYBRID, _SERVER),
    Flag(SGLANG, "--max-mamba-cache-size", HYBRID, _SERVER),
    Flag(SGLANG, "--linear-attn-*", HYBRID, _SERVER),
    Flag(SGLANG, "--swa-full-tokens-ratio", SLIDING, _SERVER),
    Flag(SGLANG, "--enable-flashinfer-mla", MLA, _SERVER),
    Flag(SGLANG, "--speculative-*", SPECULATIVE, _SERVER),
    Flag(SGLANG, "--is-embedding", POOLING, _SERVER),
    Flag(SGLANG, "--enable-multimodal", MULTIMODAL, _SERVER),
)


def of_flags(engine: Engine) -> Mapping[str, str]:
    """What the flags prove: {family: the flag}."""
    found: dict[str, str] = {}
    for row in FLAGS:
        if row.engine != engine.name:
            continue
        for name, value in engine.flags.items():
            hit = name == row.name or (row.name[-1] == "*" and name.startswith(row.name[:-1]))
            if hit and (not row.values or value in row.values):
                found.setdefault(row.family, name)
    backend = engine.flag("--attention-backend") or engine.env.get("VLLM_ATTENTION_BACKEND") or ""
    if "MLA" in backend.upper():
        found.setdefault(MLA, "--attention-backend")
    if "diffusion" in engine.image.rpartition(":")[2]:
        found.setdefault(PIPELINE, "the image's tag")
    for architecture in _architectures(engine):
        if known := of_architecture(architecture):
            for family in sorted(known.families):
                found.setdefault(family, "--hf-overrides")
    return found


def _architectures(engine: Engine) -> list[str]:
    try:
        overrides = json.loads(engine.flag("--hf-overrides") or "{}")
    except (ValueError, RecursionError):
        return []
    names = overrides.get("architectures") if isinstance(overrides, dict) else None
    return [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
