"""A model that a test writes in a second: two Llama layers, a byte tokenizer, wide random weights.

n characters are n tokens. The weights are wide, so that what is generated depends on every cached
block: with the near-zero weights of a dummy load all logits are alike, and a wrong block changes no
word. The same `seed` gives the same bytes everywhere.
"""

import array
import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

# name, shape, numbers
Tensors = Iterable[tuple[str, tuple[int, ...], Iterable[float]]]

HIDDEN, FEED, LAYERS, HEADS, KV_HEADS, HEAD = 256, 512, 2, 4, 2, 64
SPECIAL = ("<s>", "</s>", "<unk>")
VOCABULARY = 320  # 3 special tokens, 256 bytes, padding
LONGEST = 8192  # tokens
WIDTH = 0.08  # standard deviation of a weight

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": FEED,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "hidden_act": "silu",
    "vocab_size": VOCABULARY,
    "max_position_embeddings": LONGEST,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
}


# LongRoPE's factors for requests up to 4,096 tokens, and for longer ones: of each pair of a head.
LONG_ROPE = {
    "rope_scaling": {
        "rope_type": "longrope",
        "short_factor": [1.0] * (HEAD // 2),
        "long_factor": [1.0 + pair / 4 for pair in range(HEAD // 2)],
    },
    "original_max_position_embeddings": 4096,
}


def write_model(folder: Path, seed: int, more: Mapping[str, Any] | None = None) -> Path:
    """A model of that seed's weights in `folder`, as a hub's snapshot lies on a disk."""
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        shapes |= {f"{at}.{name}.weight": shape for name, shape in _LAYER.items()}
    if more and not more.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (VOCABULARY, HIDDEN)
    tensors = _drawn(shapes, seed, WIDTH)
    return write_snapshot(folder, {**CONFIG, **(more or {})}, _tokenizer(), tensors)


def write_snapshot(
    folder: Path, config: Mapping[str, Any], tokenizer: Mapping[str, Any], tensors: Tensors
) -> Path:
    """Config, tokenizer and weights in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", config)
    _write(folder / "tokenizer.json", tokenizer)
    _write(folder / "tokenizer_config.json", _TOKENIZER_CONFIG)
    _write_tensors(folder / "model.safetensors", tensors)
    return folder


def write_adapter(folder: Path, seed: int, rank: int = 8) -> Path:
    """A LoRA adapter of the model, strong enough that every block differs with it."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = ("q_proj", "k_proj", "v_proj")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(targets),
    }
    _write(folder / "adapter_config.json", config)
    shapes = {}
    for layer in range(LAYERS):
        for target in targets:
            out, into = _LAYER[f"self_attn.{target}"]
            at = f"base_model.model.model.layers.{layer}.self_attn.{target}"
            shapes |= {f"{at}.lora_A.weight": (rank, into), f"{at}.lora_B.weight": (out, rank)}
    _write_tensors(folder / "adapter_model.safetensors", _drawn(shapes, seed, WIDTH))
    return folder


_LAYER: Mapping[str, tuple[int, ...]] = {
    "self_attn.q_proj": (HEADS * HEAD, HIDDEN),
    "self_attn.k_proj": (KV_HEADS * HEAD, HIDDEN),
    "self_attn.v_proj": (KV_HEADS * HEAD, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HEADS * HEAD),
    "mlp.gate_proj": (FEED, HIDDEN),
    "mlp.up_proj": (FEED, HIDDEN),
    "mlp.down_proj": (HIDDEN, FEED),
    "input_layernorm": (HIDDEN,),
    "post_attention_layernorm": (HIDDEN,),
}
_TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "model_max_length": LONGEST,
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}",
}


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1))


def _alphabet() -> list[str]:
    """The characters in which byte-level BPE writes the 256 bytes, as GPT-2 chose them."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + n) for n in range(len(hidden))]


def _tokenizer() -> dict[str, Any]:
    """BPE over bytes without a single merge."""
    special = [
        {
            "id": number,
            "content": word,
            "special": True,
            "normalized": False,
            "lstrip": False,
            "rstrip": False,
            "single_word": False,
        }
        for number, word in enumerate(SPECIAL)
    ]
    words = [*SPECIAL, *_alphabet()]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "added_tokens": special,
        "pre_tokenizer": {**byte_level, "use_regex": True},
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": [],
        },
    }


def words_tokenizer(words: Sequence[str]) -> dict[str, Any]:
    """A token each for words between spaces; the first ones are `SPECIAL`."""
    vocabulary = {word: number for number, word in enumerate(words)}
    return _tokenizer() | {
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": None,
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": vocabulary},
    }


def _drawn(shapes: Mapping[str, tuple[int, ...]], seed: int, width: float) -> Tensors:
    draw = random.Random(seed).gauss
    for name, shape in sorted(shapes.items()):
        norm = len(shape) == 1
        count = math.prod(shape)
        yield name, shape, (1.0 if norm else draw(0, width) for _ in range(count))


def _write_tensors(path: Path, tensors: Tensors) -> None:
    """A safetensors file of 32-bit floats: an 8-byte length, a JSON header, the numbers."""
    header, body = {}, bytearray()
    for name, shape, numbers in tensors:
        begin = len(body)
        body += array.array("f", numbers).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(body)]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
