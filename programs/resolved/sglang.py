import hashlib
import json
import os
import re
import time
from pathlib import Path

from .weights import FORMAT, as_text, digest_of, fingerprint, public, weight_files

_ARGUMENTS = """device dtype kv_cache_dtype quantization page_size attention_backend
prefill_attention_backend decode_attention_backend dsa_prefill_backend dsa_decode_backend
json_model_override_args model_impl speculative_algorithm"""


def resolved(server_args, pool):
    """Return the digest of all ranks. RuntimeError in all where ranks of one stage differ.

    SGLang's keys name the rank where ranks hold other blocks: no word is of one rank. Stages of a
    pipeline may differ, and the digest of each rank names all: other weights in one stage change
    what the next stages compute.
    """
    begun = time.monotonic()
    try:
        found, layers, problem = words(server_args, pool), _layers(pool), ""
        text = as_text(found)
    except Exception as error:  # raised here, other ranks would wait
        found, layers, text, problem = {}, [], "", f"{type(error).__name__}: {error}"
    stages = _stages((text, problem), layers)
    problems = {row[1] for rows in stages for row in rows} - {""}
    differing = [rows for rows in stages if len({row[:2] for row in rows}) > 1]
    if problems or differing:
        texts = problems or {row[0] for row in differing[0]}
        raise RuntimeError(NO_DIGEST + " <> ".join(sorted(texts)))
    if len(stages) > 1:
        found = {"stages": [[rows[0][2], json.loads(rows[0][0])] for rows in stages]}
    return digest_of(found, begun, "sglang")


def _stages(mine, layers):
    """Return what all ranks bring, by stage: other weights on one node change all blocks."""
    import torch.distributed as distributed

    if not distributed.is_initialized():
        return [[(*mine, layers)]]
    from sglang.srt.distributed.parallel_state import get_pp_group, get_tp_group

    rows = _gathered(distributed, get_tp_group(), (*mine, layers))
    return _gathered(distributed, get_pp_group(), rows)


def _gathered(distributed, group, mine):
    rows = [mine] * group.world_size
    if len(rows) > 1:
        distributed.all_gather_object(rows, mine, group=group.cpu_group)
    return rows


def _layers(pool):
    """Return the layers of this rank: keys name a stage, not which layers it has."""
    return [getattr(_first(pool), name, None) for name in ("start_layer", "end_layer")]


def _first(pool):
    return getattr(getattr(pool, "anchor_entry", None), "host_pool", pool)


def words(server_args, pool):
    """Return what makes the bytes of a page, as JSON."""
    import sglang
    from sglang.srt.arg_groups.overrides import resolved_view

    given = resolved_view(server_args)
    pool = _first(pool)
    draft = given.speculative_draft_model_path
    found = {
        "format": FORMAT,
        "sglang": sglang.__version__,
        "pool": {name: getattr(pool, name, None) for name in ("layout", "dtype", "page_size")},
        "models": [_model(given.model_path, given.revision, given)],
    }
    if draft:
        found["models"].append(_model(draft, given.speculative_draft_model_revision, given))
    found |= {name: getattr(given, name, None) for name in _ARGUMENTS.split()}
    return json.loads(as_text(found))


def _model(address, revision, given):
    """Return a digest of the configuration, the length with LongRoPE, and the weights."""
    place, modelscope = Path(address), os.environ.get("SGLANG_USE_MODELSCOPE", "").lower()
    remote = "://" in address or modelscope in ("1", "true")
    if not place.exists() and not remote:
        import huggingface_hub as hub

        names = {"revision": revision, "cache_dir": given.download_dir}
        place = Path(hub.snapshot_download(address, **names, local_files_only=True))
    file = place / "config.json"
    config = as_text(public(json.loads(file.read_text()))) if file.is_file() else ""
    longest = given.context_length if re.search(r'"(longrope|su)"', config) else None
    return hashlib.sha256(config.encode()).hexdigest()[:16], longest, _weights(place, given)


def _weights(place, given):
    """Return the hub's commit, a digest of the files, or an address."""
    if given.load_format == "dummy":
        return "dummy", given.random_seed
    if re.fullmatch("[0-9a-f]{40}", place.name) and place.parent.name == "snapshots":
        return "commit", place.name
    if place.exists() and (files := weight_files(place)):
        return "files", fingerprint(files)
    if place.exists() and given.load_format in ("auto", "safetensors"):
        raise RuntimeError(f"{place} holds no weights")
    return "address", given.model_path, given.revision


NO_DIGEST = (
    "function-kv-offload cannot tell this engine's pages from other engines'. Correct this, or "
    "remove the annotation modelplane.ai/kv-offload-tier: "
)
