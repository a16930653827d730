"""Whether our connector class fits the LMCache on the path: the real classes, without a server.

    python lmcache_key.py TEXT IDENTITY DIGEST ADAPTER

TEXT: the module's file; DIGEST: what the engine's workers agree on. Prints `{"version", "names":
{side: model name in a key}, "salts": [...], "pings": bool}`: salts of a plain request, one with the
LoRA adapter in the folder ADAPTER, and a tenant's with it; whether the worker pings once it is
registered. What a server or an engine would give the classes is filled in by hand.
"""

import importlib.metadata
import json
import sys
import uuid
from types import SimpleNamespace

from lmcache.integration.vllm import lmcache_mp_connector as upstream
from lmcache.integration.vllm.vllm_multi_process_adapter import (
    LMCacheMPSchedulerAdapter,
    LMCacheMPWorkerAdapter,
)
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole


class Anything:
    """Numbers that the parallel geometry is made of."""

    def __getattr__(self, name):
        return 1


def client(kind):
    made = object.__new__(kind)
    made.model_name, made.parallel_strategy = "/mnt/models", Anything()
    for name in ("world_size", "worker_id", "tp_size"):
        if not isinstance(getattr(kind, name, None), property):
            setattr(made, name, 1)
    return made


def pings(made):
    """Whether the real client has what our class starts, and ours starts it."""
    begun = []
    assert callable(LMCacheMPWorkerAdapter._ensure_heartbeat_started)
    made.worker_adapter._ensure_heartbeat_started = lambda: begun.append(True)
    upstream.LMCacheMPConnector.register_kv_caches = lambda self, kv_caches: None
    made.register_kv_caches({})
    return begun == [True]


def init(self, vllm_config, role, kv_cache_config=None):
    side = role.name.lower()
    kind = {"scheduler": LMCacheMPSchedulerAdapter, "worker": LMCacheMPWorkerAdapter}[side]
    setattr(self, f"{side}_adapter", client(kind))
    self.request_trackers, self.lazy_offload = {}, False


def request(name, salt, lora):
    return SimpleNamespace(
        request_id=name,
        cache_salt=salt,
        lora_request=lora and SimpleNamespace(lora_path=lora, lora_name="sql", lora_int_id=1),
        prompt_embeds=None,
        sampling_params=None,
        kv_transfer_params=None,
        mm_features=[],
        status=None,
        num_prompt_tokens=1,
        prompt_token_ids=[1],
        all_token_ids=[1],
        block_hashes=[],
    )


def main():
    text, identity, digest, adapter = sys.argv[1:]
    scope = {"__name__": "ours"}
    upstream.LMCacheMPConnector.__init__ = init
    with open(text) as file:
        exec(compile(file.read(), text, "exec"), scope)
    extra = {scope["IDENTITY"]: identity}
    transfer = SimpleNamespace(
        engine_id=str(uuid.uuid4()), get_from_extra_config=lambda key, _: extra.get(key)
    )
    config, names = SimpleNamespace(kv_transfer_config=transfer), {}
    for role in (KVConnectorRole.WORKER, KVConnectorRole.SCHEDULER):
        # What workers agree on is keyed_connectors.py's to check; a scheduler has no part in it.
        scope["agreed"] = lambda *_, role=role: digest if role.name == "WORKER" else None
        made = scope["LMCacheMPConnector"](config, role)
        side = role.name.lower()
        key = getattr(made, f"{side}_adapter")._create_key([1], start=0, end=1, request_id="r")
        names[side] = key.model_name
    rows = (("a", None, None), ("b", None, adapter), ("c", "tenant", adapter))
    salts = [made._get_or_create_request_tracker(request(*row)).cache_salt for row in rows]
    version = importlib.metadata.version("lmcache")
    scope["agreed"] = lambda *_: digest
    begun = pings(scope["LMCacheMPConnector"](config, KVConnectorRole.WORKER))
    print(json.dumps({"version": version, "names": names, "salts": salts, "pings": begun}))


main()
