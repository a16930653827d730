"""vLLM's connectors, with a digest of what the engine resolved at its start in the keys of blocks.

An engine that cannot compute the digest stops. From function-kv-offload, for vLLM 0.24 to 0.33;
docs/identity.md says what is in it, and why.
"""

import dataclasses
import functools
import hashlib
import importlib
import json
import logging
import os
import re
import struct
import time
from pathlib import Path
from typing import Any

FORMAT = 1
_V1 = "vllm.distributed.kv_transfer.kv_connector.v1."
_MODEL = "dtype quantization model_impl code_revision disable_sliding_window enable_prompt_embeds"
_CACHE = """cache_dtype block_size calculate_kv_scales kv_cache_dtype_skip_layers mamba_block_size
mamba_cache_dtype mamba_ssm_cache_dtype mamba_cache_mode kv_sharing_fast_prefill"""
_PARALLEL = """tensor_parallel_size pipeline_parallel_size prefill_context_parallel_size
decode_context_parallel_size cp_kv_cache_interleave_size dcp_kv_cache_interleave_size"""
_WEIGHTS = re.compile(r".*\.(safetensors|bin|pt|pth|gguf|ckpt|tensors|py)")
_MIB, _SAMPLE, _SAMPLES, _HEADER = 1 << 20, 4096, 512, 100_000_000


def _mooncake():
    upstream = importlib.import_module(_V1 + "mooncake.store.connector").MooncakeStoreConnector

    class MooncakeStoreConnector(upstream):
        def __init__(self, vllm_config, role, kv_cache_config=None):
            digest = ""
            if role.name == "WORKER":  # the scheduler makes no key
                digest = _agreed(vllm_config, kv_cache_config)
                extra = vllm_config.kv_transfer_config.kv_connector_extra_config
                extra["cache_prefix"] = _with(str(extra.get("cache_prefix", "")), digest)
            super().__init__(vllm_config, role, kv_cache_config)
            worker = self.connector_worker
            if worker is not None and not getattr(worker, "_capacity_only", False):
                prefixes = [db.metadata.cache_prefix for db in worker.token_dbs]
                if not prefixes or not all(prefix.endswith(digest) for prefix in prefixes):
                    raise RuntimeError(_NO_PLACE)

    return MooncakeStoreConnector


def _offloading():
    module: Any = importlib.import_module(_V1 + "offloading_connector")

    class OffloadingConnector(module.OffloadingConnector):
        def __init__(self, vllm_config, role, kv_cache_config=None):
            if role.name != "SCHEDULER":  # workers make no key
                super().__init__(vllm_config, role, kv_cache_config)
                return
            begun, (found, problem) = time.monotonic(), _told(vllm_config, kv_cache_config)
            if problem:
                raise RuntimeError(_NO_DIGEST + problem)
            digest = _digest(found, begun)
            build, built = module.build_offloading_config, []

            def keyed(*args):
                built.append(build(*args))  # this name is in all keys
                model = built[0].model
                model = dataclasses.replace(model, name=_with(model.name.rstrip("/"), digest))
                return dataclasses.replace(built[0], model=model)

            module.build_offloading_config = keyed
            try:
                super().__init__(vllm_config, role, kv_cache_config)
            finally:
                module.build_offloading_config = build
            if not built:
                raise RuntimeError(_NO_PLACE)

    return OffloadingConnector


_CLASSES = {"MooncakeStoreConnector": _mooncake, "OffloadingConnector": _offloading}


def __getattr__(name):  # what vLLM does not use need not import
    if name not in _CLASSES:
        raise AttributeError(name)
    return globals().setdefault(name, _CLASSES[name]())


def _with(key, digest):
    return key if key.endswith(digest) else f"{key}-{digest}"


def _agreed(vllm_config, kv_cache_config):
    """Return the digest of all workers of the engine. RuntimeError in all where they differ."""
    begun, mine = time.monotonic(), _told(vllm_config, kv_cache_config, worker=True)
    rows = _workers(mine)
    problems = {row[1] for row in rows} - {""}
    own = {}  # a pipeline's stages have layers of their own
    for name in ("groups", "backends"):
        own[name] = sorted({one for found, _ in rows for one in found.get(name, ())})
    texts = {json.dumps({**found, **own}, sort_keys=True) for found, _ in rows}
    if problems or len(texts) > 1:
        raise RuntimeError(_NO_DIGEST + " <> ".join(sorted(problems or texts)))
    return _digest({**mine[0], **own}, begun)


def _told(vllm_config, kv_cache_config, worker=False):
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


def _digest(found, begun):
    text = json.dumps(found, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    milliseconds = 1000 * (time.monotonic() - begun)
    logging.getLogger("vllm.kv_offload").info("%s (%.0f ms): %s", digest, milliseconds, text)
    return digest


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
    return json.loads(_text(found))


def _text(value):
    """As JSON that is alike in every process."""
    text = json.dumps(value, sort_keys=True, default=_other)
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _other(value):
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)


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
    text = _text(_public(model.hf_config.to_dict()))
    longest = model.max_model_len if re.search(r'"(longrope|su)"', text) else None
    return hashlib.sha256(text.encode()).hexdigest()[:16], longest


def _public(value):
    """Less where the configuration lies, and who wrote it."""
    if isinstance(value, dict):
        names = (k for k in value if not str(k).startswith("_") and k != "transformers_version")
        return {str(name): _public(value[name]) for name in names}
    return [_public(item) for item in value] if isinstance(value, (list, tuple)) else value


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
    if files := _files(place.parent if "%" in place.name else place):  # -%03d
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


def _files(folder):
    if folder.is_file():
        return (folder,)
    found = (f for f in folder.rglob("*") if _WEIGHTS.fullmatch(f.name) and f.is_file())
    kept = (f for f in found if not f.relative_to(folder).parts[0].startswith((".", "original")))
    return tuple(sorted(kept))


@functools.lru_cache
def fingerprint(files):
    """Return a digest of sizes, first and last MiB, and samples of tensors (512 in all)."""
    digest, most = hashlib.sha256(), max(1, _SAMPLES // len(files))
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with open(file, "rb", _SAMPLE) as stream:
            starts = _tensors(stream, size) or range(0, size, size // most + 1)
            digest.update(_read(stream, 0, _MIB) + _read(stream, max(0, size - _MIB), _MIB))
            for start in starts[:: len(starts) // most + 1]:
                digest.update(_read(stream, start, _SAMPLE))
    return digest.hexdigest()[:16]


def _tensors(stream, size):
    """Return the middle of each tensor of a safetensors file."""
    try:
        (length,) = struct.unpack("<Q", _read(stream, 0, 8))
        if not 0 < length < min(size, _HEADER) or _read(stream, 8, 1) != b"{":
            return []
        rows = json.loads(_read(stream, 8, length))
        spans = [row["data_offsets"] for name, row in rows.items() if name != "__metadata__"]
        return sorted(8 + length + sum(span) // 2 for span in spans)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error):
        return []


def _read(stream, start, length):
    stream.seek(start)
    return stream.read(length)


_NO_DIGEST = (
    "function-kv-offload cannot tell this engine's blocks from other engines'. Correct this, or "
    "remove the annotation modelplane.ai/kv-offload-tier: "
)
_NO_PLACE = (
    "This vLLM keys its blocks in another way than 0.24 to 0.33 do: engines would read each "
    "other's. Use a vLLM that function-kv-offload knows."
)
