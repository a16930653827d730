"""SGLang's own cache over LMCache, as its flags choose it, against a real agent and without a GPU.

    python sglang_lmcache.py REQUEST FLAG ...

REQUEST: `{"do": [[IDENTITY, SEED], ...]}`. FLAGs are SGLang's, the variables those of the pod. Each
step is an engine of that identity with a pool of its own, which looks the same tokens up: what it
finds it loads, and where there is nothing it stores what comes from SEED. Prints `{"unloaded":
what SGLang says before it has loaded its plugins, "steps": [{"name": the model's name in the keys,
"found": tokens, "equal": the seed whose bytes are in the pool then}]}`.
"""

import json
import os
import sys
import tempfile
import time
from types import SimpleNamespace

import stubs

stubs.install("triton", "torchvision", "IPython", "gguf", "sgl_kernel")

import torch  # noqa: E402
from sglang.srt.configs.model_config import AttentionArch  # noqa: E402
from sglang.srt.mem_cache import registry  # noqa: E402
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator  # noqa: E402
from sglang.srt.mem_cache.cache_init_params import CacheInitParams  # noqa: E402
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool  # noqa: E402
from sglang.srt.plugins import load_plugins  # noqa: E402
from sglang.srt.runtime_context import SpawnRanks, publish  # noqa: E402
from sglang.srt.server_args import prepare_server_args  # noqa: E402
from sglang_args import MODEL  # noqa: E402

TOKENS = 1024
PATH = "/mnt/models"


def published(flags):
    """The arguments, published as in a scheduler's process."""
    model = tempfile.mkdtemp()
    for name in ("config.json", "model.bin"):
        with open(os.path.join(model, name), "w") as file:
            json.dump(MODEL, file)
    given = prepare_server_args(["--model-path", model, "--device", "cpu", *flags])
    publish(given, role="scheduler", ranks=SpawnRanks(world_rank=0))
    return given


def engine(given):
    """An engine's cache and its pool, as the scheduler makes them."""
    pool = MHATokenToKVPool(2 * TOKENS, 1, torch.float16, 4, 64, 2, "cpu", False)
    allocator = TokenToKVPoolAllocator(2 * TOKENS, torch.float16, "cpu", pool, False)
    requests = ReqToTokenPool(4, 2 * TOKENS, "cpu", False)
    config = SimpleNamespace(architectures=MODEL["architectures"], model_type="llama")
    context = registry.TreeCacheBuildContext(
        server_args=given,
        params=CacheInitParams(
            disable=False,
            req_to_token_pool=requests,
            token_to_kv_pool_allocator=allocator,
            page_size=1,
        ),
        is_hybrid_swa=False,
        is_hybrid_ssm=False,
        enable_hierarchical_cache=False,
        disable_radix_cache=False,
        tp_worker=SimpleNamespace(model_runner=SimpleNamespace(forward_stream=None)),
        model_config=SimpleNamespace(
            model_path=PATH, attention_arch=AttentionArch.MHA, hf_config=config
        ),
        tp_size=1,
        tp_rank=0,
        tp_group=None,
    )
    return registry.create_tree_cache(context), (*pool.k_buffer, *pool.v_buffer)


def content(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.float16)


def settled(ask):
    for _ in range(3000):
        if answer := ask():
            return answer
        time.sleep(0.01)
    raise TimeoutError(ask)


def step(given, identity, seed, seeds, number):
    os.environ["KV_OFFLOAD_IDENTITY"] = identity
    cache, buffers = engine(given)
    client, slots = cache.lmcache_connector, torch.arange(1, TOKENS + 1)
    lookup = client.submit_lookup(
        f"find-{number}", list(range(TOKENS)), local_hit_tokens=0, cache_salt=""
    )
    settled(lambda: client.poll_lookup(lookup) is not None)
    found = lookup.total_hit_tokens
    if found:
        load = client.submit_load(lookup, slots[:found], local_hit_tokens=0)
        settled(load.query)
        assert client.complete_load(load)
    else:
        for buffer in buffers:
            buffer.copy_(content(buffer.shape, seed))
        store = client.submit_store(
            f"keep-{number}",
            list(range(TOKENS)),
            slots,
            device_indices_start=0,
            cache_salt="",
        )
        settled(store.query)
        assert client.complete_store(store)
    equal = [
        each
        for each in seeds
        if all(torch.equal(b[1 : TOKENS + 1], content(b.shape, each)[1:][:TOKENS]) for b in buffers)
    ]
    cache.shutdown()
    return {"name": client.model_name, "found": found, "equal": equal}


def main():
    steps, given = json.loads(sys.argv[1])["do"], published(sys.argv[2:])
    try:
        engine(given)
        unloaded = ""
    except ValueError as refused:
        unloaded = str(refused)
    load_plugins()
    seeds = [seed for _, seed in steps]
    done = [step(given, *each, seeds, number) for number, each in enumerate(steps)]  # type: ignore[call-arg]
    print(json.dumps({"unloaded": unloaded, "steps": done}))


if __name__ == "__main__":
    main()
