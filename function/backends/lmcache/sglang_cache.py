"""SGLang's cache over LMCache, with what stands behind a model's name in the key of its blocks.

Upstream's key is tokens, model argument and rank: models at one path read each other's blocks. Here
the name carries the cache identity. SGLang loads this as a plugin (group sglang.srt.plugins), and
uses it by the name that it registers: an engine that has not loaded it knows no cache of that name
(--radix-cache-backend) and stops. From function-kv-offload, for SGLang 0.5.15 to 0.5.23 with
LMCache 0.5.3 to 0.5.6.
"""

import copy
import dataclasses
import os
from types import SimpleNamespace

NAME = "kv-offload-lmcache"
IDENTITY = "KV_OFFLOAD_IDENTITY"


def register():
    from sglang.srt.mem_cache import registry

    registry.register_radix_cache_backend(NAME, _build)


def _build(context):
    from sglang.srt.mem_cache import registry

    identity = os.environ.get(IDENTITY)
    if not identity:
        raise ValueError(f"{IDENTITY} is not set")
    model = copy.copy(context.model_config)
    model.model_path = name = f"{model.model_path}##kv-offload-{identity}"
    cache = registry.default_radix_cache_factory(dataclasses.replace(context, model_config=model))
    if _in_the_key(cache) != name:
        raise RuntimeError(_NO_PLACE)
    return cache


def _in_the_key(cache):
    """The model's name in the key of a block; None where there is no such key."""
    request = SimpleNamespace(token_ids=[0], request_id="", cache_salt="")
    for block, of in (([0], {"request_id": ""}), (request, {"worker_id": None})):
        try:
            return cache.lmcache_connector._create_key(block, start=0, end=1, **of).model_name
        except (AttributeError, TypeError):
            continue
    return None


_NO_PLACE = (
    "SGLang keeps this model's blocks elsewhere than in LMCache, or keys them in another way than "
    "0.5.15 to 0.5.23 do with LMCache 0.5.3 to 0.5.6, and without the cache identity in the key "
    "models would read each other's blocks. Use an image with SGLang 0.5.23 and LMCache 0.5.6, or "
    "run this model without the tier."
)
