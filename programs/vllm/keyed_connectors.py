"""vLLM's connectors, with a digest of what the engine resolved in the keys of blocks.

An engine that cannot compute it stops. From function-kv-offload, for vLLM 0.24 to 0.33: see
docs/identity.md.
"""

import dataclasses
import importlib
import time
from typing import Any

from ..resolved.vllm import NO_DIGEST, agreed, told
from ..resolved.weights import digest_of

_V1 = "vllm.distributed.kv_transfer.kv_connector.v1."


def _mooncake():
    upstream = importlib.import_module(_V1 + "mooncake.store.connector").MooncakeStoreConnector

    class MooncakeStoreConnector(upstream):
        def __init__(self, vllm_config, role, kv_cache_config=None):
            digest = ""
            if role.name == "WORKER":  # the scheduler makes no key
                digest = agreed(vllm_config, kv_cache_config)
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
            begun, (found, problem) = time.monotonic(), told(vllm_config, kv_cache_config)
            if problem:
                raise RuntimeError(NO_DIGEST + problem)
            digest = digest_of(found, begun)
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


_NO_PLACE = (
    "This vLLM keys its blocks in another way than 0.24 to 0.33 do: engines would read each "
    "other's. Use a vLLM that function-kv-offload knows."
)
