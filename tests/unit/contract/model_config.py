"""What a model's config.json shows of its families: the probe's own reading is held to this."""

from collections.abc import Mapping
from typing import Any

from function.contract.models.families import HYBRID, MLA, MULTIMODAL, SLIDING, of_architecture


def of_config(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the families that a model's config.json shows; empty for none."""
    architectures = config.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    found: set[str] = set()
    for name in names:
        if isinstance(name, str) and (row := of_architecture(name)):
            found |= row.families
    text = config.get("text_config")
    text = text if isinstance(text, Mapping) else config
    if text.get("kv_lora_rank"):
        found.add(MLA)
    kinds = text.get("layer_types")
    kinds = {k for k in kinds if isinstance(k, str)} if isinstance(kinds, list) else set()
    if kinds & {"linear_attention", "mamba", "mamba2", "conv"}:
        found.add(HYBRID)
    if kinds & {"sliding_attention", "chunked_attention"}:
        found.add(SLIDING)
    if "vision_config" in config or "audio_config" in config:
        found.add(MULTIMODAL)
    return frozenset(found)
