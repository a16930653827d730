"""SGLang's own storages of HiCache, on a real host pool, without a GPU and without a server.

Request `{"storage": NAME, "extra": TEXT, "env": {...}, "do": [STEP, ...]}`: `extra` as in
--hicache-storage-backend-extra-config; further `layout`, `page`, `model`, `rank`, `ranks`, `stage`
and `stages` describe the engine. A step is `["put", FIRST, COUNT, SEED]`, `["get", FIRST, COUNT,
SEED]` or `["sleep", SECONDS]`: pages FIRST to FIRST + COUNT, whose bytes come from SEED. The
result: `steps`, for each step how many pages were written, or `{"there": N, "equal": N}` of those
that the storage says are there and those that came back with the bytes of SEED.

With `flags`, SGLang's, its arguments are resolved and published as in a scheduler's process, and
its plugins are loaded; `milliseconds`: how long it took then to make the storage.

Request `{"engine": [MODEL, ...], "flags": [...], "env": {...}}`: one process for each rank of an
engine, in SGLang's own groups over gloo, with the files of MODEL. The result: `ranks`, for each
`{"key": TEXT}`, what its keys of pages end with, or `{"error": TEXT}`.
"""

import json
import os
import socket
import time

import service
import stubs

stubs.install("triton", "torchvision", "IPython", "gguf", "sgl_kernel")

import torch  # noqa: E402
from sglang.srt.distributed import parallel_state  # noqa: E402
from sglang.srt.mem_cache.device_pool_info import (  # noqa: E402
    KVBufferLayout,
    KVBuffers,
    MHABufferInfo,
)
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig  # noqa: E402
from sglang.srt.mem_cache.hybrid_cache import hybrid_cache_controller  # noqa: E402
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost  # noqa: E402
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory  # noqa: E402
from sglang.srt.plugins import load_plugins  # noqa: E402
from sglang.srt.runtime_context import SpawnRanks, get_parallel, publish  # noqa: E402
from sglang.srt.server_args import prepare_server_args  # noqa: E402

LAYERS, HEADS, DIM = 2, 2, 64
PAGES = 64
# As HiCacheController decides: these take addresses, the others whole pages.
ZERO_COPY = ("hf3fs", "mooncake", "nixl")


def _pool(layout: str, page: int) -> MHATokenToKVPoolHost:
    """A host pool of PAGES pages, made for a GPU pool of one."""
    shape = (page, HEADS, DIM)
    layers = tuple(torch.zeros(shape, dtype=torch.bfloat16) for _ in range(LAYERS))
    pointers = torch.tensor([t.data_ptr() for t in layers], dtype=torch.uint64)
    buffers = KVBuffers(
        k=layers,
        v=layers,
        k_data_ptrs=pointers,
        v_data_ptrs=pointers,
        layout=next(iter(KVBufferLayout)),
    )
    info = MHABufferInfo(
        buffers=buffers,
        page_size=page,
        head_num=HEADS,
        head_dim=DIM,
        v_head_dim=DIM,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    return MHATokenToKVPoolHost(
        info,
        host_to_device_ratio=float(PAGES),
        host_size=0,
        page_size=page,
        layout=layout,
        pin_memory=False,
        device_capacity_tokens=page,
        start_layer=0,
        end_layer=LAYERS,
    )


def _parse(text: str):
    """SGLang's own reading of the extra configuration."""
    for owner in vars(hybrid_cache_controller).values():
        parse = getattr(owner, "parse_storage_backend_extra_config", None)
        if parse is not None:
            return parse(text)
    raise LookupError("parse_storage_backend_extra_config")


def _wanted(pool, seed: int, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * seed + number)
    page = pool.get_dummy_flat_data_page()
    return torch.randn(page.shape, generator=generator).to(page.dtype)


class Storage:
    """One storage behind one host pool."""

    def __init__(self, request: dict) -> None:
        self.page = request.get("page", 64)
        layout = request.get("layout", "page_first")
        self.pool = _pool(layout, self.page)
        extra, threshold, base, per_ki, _ = _parse(request.get("extra", ""))
        self.prefetch = [threshold, base, per_ki]
        config = HiCacheStorageConfig(
            tp_rank=request.get("rank", 0),
            tp_size=request.get("ranks", 1),
            pp_rank=request.get("stage", 0),
            pp_size=request.get("stages", 1),
            attn_cp_rank=0,
            attn_cp_size=1,
            is_mla_model=False,
            enable_storage_metrics=False,
            is_page_first_layout=layout == "page_first",
            model_name=request.get("model", "model"),
            extra_config=extra,
        )
        self.name = request["storage"]
        if "flags" in request:
            given = prepare_server_args(["--device", "cpu", *request["flags"]])
            publish(given, role="scheduler", ranks=SpawnRanks(world_rank=0))
            load_plugins()
        begun = time.monotonic()
        self.backend = StorageBackendFactory.create_backend(self.name, config, self.pool)
        self.milliseconds = round(1000 * (time.monotonic() - begun), 1)
        self.backend.register_mem_pool_host(self.pool)

    def put(self, first: int, count: int, seed: int) -> int:
        keys = [f"{n:064x}" for n in range(first, first + count)]
        for i in range(count):
            page = _wanted(self.pool, seed, first + i)
            self.pool.set_from_flat_data_page(i * self.page, page)
        if self.name in ZERO_COPY:
            indices = torch.arange(count * self.page)
            return sum(map(bool, self.backend.batch_set_v1(keys, indices)))
        pages = [self.pool.get_data_page(i * self.page) for i in range(count)]
        return sum(bool(self.backend.set(k, p)) for k, p in zip(keys, pages, strict=True))

    def get(self, first: int, count: int, seed: int) -> dict:
        keys = [f"{n:064x}" for n in range(first, first + count)]
        there = self.backend.batch_exists(keys)
        empty = self.pool.get_dummy_flat_data_page()
        for i in range(count):
            self.pool.set_from_flat_data_page(i * self.page, empty)
        if self.name in ZERO_COPY:
            indices = torch.arange(count * self.page)
            self.backend.batch_get_v1(keys, indices)
        else:
            for i, key in enumerate(keys):
                found = self.backend.get(key, self.pool.get_dummy_flat_data_page())
                if found is not None:
                    self.pool.set_from_flat_data_page(i * self.page, found)
        equal = sum(
            torch.equal(self.pool.get_data_page(i * self.page), _wanted(self.pool, seed, first + i))
            for i in range(count)
        )
        return {"there": there, "equal": equal}


def _ranks(models: list[str], flags: list[str]) -> list[dict]:
    """What each rank of an engine adds to its keys, or why it stops."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    replies = []
    end, ended = os.pipe()
    for rank, model in enumerate(models):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(ended)
            try:
                said = {"key": _key_of_rank(rank, len(models), address, model, flags)}
            except Exception as problem:
                said = {"error": f"{type(problem).__name__}: {problem}"}
            os.write(write, json.dumps(said).encode())
            os.close(write)
            os.read(end, 1)  # others still need what this rank listens on
            os._exit(0)
        os.close(write)
        replies.append(read)
    found = [json.loads(os.fdopen(reply).read()) for reply in replies]
    os.close(ended)
    return found


def _key_of_rank(rank: int, size: int, address: str, model: str, flags: list[str]) -> str:
    """As a scheduler does: arguments, groups, pools, and the storage last."""
    given = prepare_server_args(["--device", "cpu", "--model-path", model, *flags])
    publish(given, role="scheduler", ranks=SpawnRanks(world_rank=rank))
    load_plugins()
    parallel_state.init_distributed_environment(size, rank, address, rank, "gloo", timeout=60)
    parallel_state.initialize_model_parallel(backend="gloo")
    parallel = get_parallel()
    storage = Storage(
        {
            "storage": "file",
            "rank": parallel.tp_rank,
            "ranks": parallel.tp_size,
            "stage": parallel.pp_rank,
            "stages": parallel.pp_size,
        }
    )
    return storage.backend.config_suffix


def answer(request: dict) -> dict:
    if "engine" in request:
        return {"ranks": _ranks(request["engine"], request["flags"])}
    if "storage" not in request:
        return {}
    storage = Storage(request)
    steps = []
    for name, *arguments in request["do"]:
        steps.append(
            time.sleep(*arguments) if name == "sleep" else getattr(storage, name)(*arguments)
        )
    return {
        "steps": steps,
        "prefetch": storage.prefetch,
        "milliseconds": storage.milliseconds,
        "pid": os.getpid(),
    }


if __name__ == "__main__":
    service.serve(answer, {})
