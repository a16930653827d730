import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from .weights import FORMAT, as_text, digest_of, fingerprint, public, weight_files

_MODEL = "dtype quantization model_impl code_revision disable_sliding_window enable_prompt_embeds"
_CACHE = """cache_dtype block_size calculate_kv_scales kv_cache_dtype_skip_layers mamba_block_size
mamba_cache_dtype mamba_ssm_cache_dtype mamba_cache_mode kv_sharing_fast_prefill"""
_PARALLEL = """tensor_parallel_size pipeline_parallel_size prefill_context_parallel_size
decode_context_parallel_size cp_kv_cache_interleave_size dcp_kv_cache_interleave_size"""


def agreed(vllm_config, kv_cache_config):
    """Return the digest of all workers of the engine. RuntimeError in all where they differ."""
    begun, mine = time.monotonic(), told(vllm_config, kv_cache_config, worker=True)
    rows = _workers(mine)
    problems = {row[1] for row in rows} - {""}
    own = {}  # a pipeline's stages have layers of their own
    for name in ("groups", "backends"):
        own[name] = sorted({one for found, _ in rows for one in found.get(name, ())})
    texts = {json.dumps({**found, **own}, sort_keys=True) for found, _ in rows}
    if problems or len(texts) > 1:
        raise RuntimeError(NO_DIGEST + " <> ".join(sorted(problems or texts)))
    return digest_of({**mine[0], **own}, begun)


def told(vllm_config, kv_cache_config, worker=False):
    """Return what was resolved, and why it was not: raised here, other workers would wait."""
    try:
        found = words(vllm_config, kv_cache_config)
        if worker:
            layers = vllm_config.compilation_config.static_forward_context.values()
            makers = [x.get_attn_backend for x in layers if hasattr(x, "get_attn_backend")]
            found["backends"] = [maker().get_name() for maker in makers]
        return found, ""
    except Exception as error:
        return {}, f"{type(error).__name__}: {error}"


def _workers(mine):
    """Return what all workers bring. None raises before: others would wait for 30 minutes."""
    import torch.distributed
    from vllm.distributed import parallel_state

    rows = [mine]
    for name in ("get_tp_group", "get_pcp_group", "get_pp_group"):
        group = getattr(parallel_state, name, lambda: None)()
        if group is not None and group.world_size > 1:
            gathered: Any = [None] * group.world_size
            torch.distributed.all_gather_object(gathered, rows, group=group.cpu_group)
            rows = [row for other in gathered for row in other]
    return rows


def words(vllm_config, kv_cache_config):
    """Return what makes the bytes of a block, as JSON."""
    import vllm
    from vllm.platforms import current_platform

    model, cache, load = vllm_config.model_config, vllm_config.cache_config, vllm_config.load_config
    draft = getattr(vllm_config.speculative_config, "draft_model_config", None)
    found = {
        "format": FORMAT,
        "vllm": [vllm.__version__, current_platform.device_type],
        "additional": vllm_config.additional_config,
        "stages": os.getenv("VLLM_PP_LAYER_PARTITION"),
        "layout": _layout(cache),
        "groups": [_spec(group.kv_cache_spec) for group in kv_cache_config.kv_cache_groups],
        "models": [[_config(one), _weights(one, load)] for one in (model, draft) if one],
    }
    for config, names in (
        (model, _MODEL),
        (cache, _CACHE),
        (vllm_config.parallel_config, _PARALLEL),
    ):
        found |= {name: getattr(config, name) for name in names.split() if hasattr(config, name)}
    return json.loads(as_text(found))


def _layout(cache):
    if not hasattr(cache, "kv_cache_layout"):  # before 0.29
        from vllm.v1.attention.backends.utils import get_kv_cache_layout

        return get_kv_cache_layout()
    if not cache.kv_cache_layout:
        raise RuntimeError("no KV cache layout is resolved")
    return cache.kv_cache_layout


def _spec(spec):
    return repr(next(iter(getattr(spec, "kv_cache_specs", {}).values()), spec))


def _config(model):
    text = as_text(public(model.hf_config.to_dict()))
    longest = model.max_model_len if re.search(r'"(longrope|su)"', text) else None
    return hashlib.sha256(text.encode()).hexdigest()[:16], longest


def _weights(model, load):
    """Return a digest of the files, the hub's commit, or an address."""
    loader = str(getattr(load.load_format, "value", load.load_format))
    extra = getattr(load, "model_loader_extra_config", None) or {}
    uri = extra.get("tensorizer_uri") if isinstance(extra, dict) else extra.tensorizer_uri
    address = str(uri or getattr(model, "model_weights", "") or model.model)
    place, modelscope = Path(address), os.environ.get("VLLM_USE_MODELSCOPE", "").lower()
    if loader == "dummy":
        return "dummy", model.seed
    if "://" in address:
        return "address", address, model.revision
    if re.fullmatch("[0-9a-f]{40}", place.name) and place.parent.name == "snapshots":
        return "commit", place.name
    if files := weight_files(place.parent if "%" in place.name else place):  # -%03d
        return "files", fingerprint(files)
    if place.exists() and loader in ("auto", "hf", "safetensors"):
        raise RuntimeError(f"{place} holds no weights")
    if place.exists() or modelscope in ("1", "true"):
        return "address", address, model.revision
    commit = getattr(model.hf_config, "_commit_hash", None)
    if not commit or getattr(model, "hf_config_path", None):
        import huggingface_hub as hub

        names = {"revision": model.revision, "cache_dir": load.download_dir}
        commit = Path(hub.snapshot_download(address, **names, local_files_only=True)).name
    return "commit", commit


NO_DIGEST = (
    "function-kv-offload cannot tell this engine's blocks from other engines'. Correct this, or "
    "remove the annotation modelplane.ai/kv-offload-tier: "
)
