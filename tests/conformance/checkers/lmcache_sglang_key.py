"""Whether our cache fits the client of SGLang before 0.5.21 in the LMCache on the path.

    python lmcache_sglang_key.py TEXT

TEXT: the module's file. The real class, without SGLang and without a server: what they would give
it is filled in by hand. Prints `{"version", "name": the model's name in a key}`.
"""

import importlib.metadata
import json
import os
import sys
import types
from dataclasses import dataclass

import stubs

stubs.install("sglang")

from lmcache.integration.sglang.multi_process_adapter import LMCacheMPConnector  # noqa: E402


@dataclass
class Context:
    model_config: types.SimpleNamespace
    server_args: None
    params: types.SimpleNamespace


class Registry(types.ModuleType):
    def register_radix_cache_backend(self, name, factory):
        self.factory = factory

    def default_radix_cache_factory(self, context):
        """LMCRadixCache's constructor, as far as the name of the model goes."""
        made = object.__new__(LMCacheMPConnector)
        made.model_name = context.model_config.model_path
        made.tp_size, made.worker_id = 1, 0
        return types.SimpleNamespace(lmcache_connector=made)


def main():
    registry = Registry("registry")
    parent = types.ModuleType("sglang.srt.mem_cache")
    parent.registry = registry  # type: ignore[attr-defined]
    sys.modules["sglang.srt.mem_cache"] = parent
    os.environ["KV_OFFLOAD_IDENTITY"] = "0123456789ab"
    scope = {"__name__": "ours"}
    with open(sys.argv[1]) as file:
        exec(compile(file.read(), sys.argv[1], "exec"), scope)
    scope["resolved"] = lambda server_args, pool: "fedcba9876543210"
    scope["register"]()
    model = types.SimpleNamespace(model_path="/mnt/models")
    allocator = types.SimpleNamespace(get_kvcache=lambda: None)
    params = types.SimpleNamespace(token_to_kv_pool_allocator=allocator)
    cache = registry.factory(Context(model, None, params))
    key = cache.lmcache_connector._create_key([1], start=0, end=1, request_id="r")
    version = importlib.metadata.version("lmcache")
    print(json.dumps({"version": version, "name": key.model_name}))


main()
