"""SGLang's cache over LMCache, with what stands behind a model's name in the key of its blocks.

Upstream's key is tokens, model argument and rank: models at one path read each other's blocks. Here
the name carries the cache identity and what the engine resolved. SGLang loads this plugin, and uses
it by the name that it registers: an engine that has not loaded it knows no such
--radix-cache-backend and stops. And it outlives its agent. From function-kv-offload, for SGLang
0.5.15 to 0.5.23, LMCache 0.5.3 to 0.5.6.
"""

import copy
import dataclasses
import logging
import os
from types import SimpleNamespace

from ..resolved.sglang import resolved

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
    pool = context.params.token_to_kv_pool_allocator.get_kvcache()
    digest = resolved(context.server_args, pool)
    model = copy.copy(context.model_config)
    model.model_path = name = f"{model.model_path}##kv-offload-{identity}-{digest}"
    cache = registry.default_radix_cache_factory(dataclasses.replace(context, model_config=model))
    if _in_the_key(cache) != name:
        raise RuntimeError(_NO_PLACE)
    if hasattr(cache.lmcache_connector, "_req_client"):  # from SGLang 0.5.21 on
        _Outliving(cache.lmcache_connector)
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


class _Outliving:
    """Upstream waits without end for what an agent that died was asked, each request with it. Here
    that fails once the connection has ended, as all does that comes after: misses, until the engine
    is restarted. To register it once more gave wrong texts on a CPU; no GPU has been tried.
    """

    def __init__(self, client):
        self.queue, self.gone = client._req_client._message_queue_client, False
        self.ended, self.ask = self.queue.cancel_streams, self.queue.submit_request
        self.queue.cancel_streams, self.queue.submit_request = self.end, self.submit
        client._ensure_heartbeat_started()

    def end(self):
        """The connection has ended: in the one thread that knows what is pending."""
        self.ended()
        if not self.gone:
            logging.warning(_GONE)
        self.gone = True
        while self.queue.pending_futures:
            self.queue.pending_futures.popitem()[1][0].set_exception(ConnectionError(_GONE))

    def submit(self, operation, payloads):
        if not self.gone:
            return self.ask(operation, payloads)
        from lmcache.v1.multiprocess.futures import MessagingFuture

        future = MessagingFuture()
        future.set_exception(ConnectionError(_GONE))
        return future


_GONE = "LMCache's agent went: without its blocks until this engine is restarted"
_NO_PLACE = (
    "SGLang keeps this model's blocks elsewhere than in LMCache, or keys them otherwise, so models "
    "would read each other's. Use an image with SGLang 0.5.23 and LMCache 0.5.6, or no tier."
)
