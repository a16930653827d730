"""Lets SGLang's HiCache run with `--device cpu`; Python loads it in every process of the engine.

What a CPU lacks, and nothing else: packages of kernels that are imported and never called are
placeholders, pinned host memory is plain memory, the copies of `--hicache-io-backend direct`
between device and host are torch's, and NIXL takes the KV pool for the host memory that it is.
Radix tree, controller, storages, hand-over and metrics are SGLang's own.
"""

import importlib.abc
import importlib.machinery
import inspect
import sys
from pathlib import Path

import stubs

stubs.install("triton", "torchvision", "IPython", "gguf", "sgl_kernel", "soundfile", "torchaudio")

_POOLS = "sglang.srt.mem_cache.pool_host."


def _plain(dims, dtype, device, pin_memory=False, allocator=None, **kwargs):
    import torch

    return torch.zeros(dims, dtype=dtype, device="cpu")


def _pages(indices, page_size):
    return [int(index) // page_size for index in indices[::page_size].tolist()]


def _load_layer(src_ptrs, dst_ptrs, src_indices, dst_indices, layer_id, page_size, **kwargs):
    """Host [page, layer, token, ...] to device [token, ...], one layer."""
    for source, target in zip(src_ptrs, dst_ptrs, strict=True):
        starts = dst_indices[::page_size].tolist()
        for page, start in zip(_pages(src_indices, page_size), starts, strict=True):
            rows = target[start : start + page_size]
            rows.copy_(source[page, layer_id].reshape(rows.shape))


def _save_layers(src_ptrs, dst_ptrs, src_indices, dst_indices, page_size, **kwargs):
    """Device [token, ...], all layers' keys and then their values, to host pages."""
    layers = len(src_ptrs) // len(dst_ptrs)
    starts = src_indices[::page_size].tolist()
    for number, target in enumerate(dst_ptrs):
        for layer in range(layers):
            source = src_ptrs[number * layers + layer]
            for start, page in zip(starts, _pages(dst_indices, page_size), strict=True):
                rows = target[page, layer]
                rows.copy_(source[start : start + page_size].reshape(rows.shape))


def _direct(src_layers, dst_layers, src_indices, dst_indices, page_size, **kwargs):
    """Tokens of one layout, layer by layer."""
    for source, target in zip(src_layers, dst_layers, strict=True):
        rows = target[dst_indices.long()]
        target[dst_indices.long()] = source[src_indices.long()].reshape(rows.shape)


def _common(module):
    for kind in [*module.ALLOC_MEMORY_FUNCS, "cpu"]:
        module.ALLOC_MEMORY_FUNCS[kind] = _plain


def _base(module):
    begin = module.HostKVCache.__init__
    assert "pin_memory" in inspect.signature(begin).parameters, "the shim does not fit this SGLang"

    def unpinned(self, *args, **kwargs):
        begin(self, *args, **{**kwargs, "pin_memory": False})

    module.HostKVCache.__init__ = unpinned


def _copies(module):
    source = Path(module.__file__).read_text()
    for name, copy in _COPIES.items():
        assert name in source, f"the shim does not fit this SGLang: it has no {name}"
        setattr(module, name, copy)


_COPIES = {
    "transfer_kv_per_layer_direct_pf_lf": _load_layer,
    "transfer_kv_all_layer_direct_lf_pf": _save_layers,
    "transfer_kv_direct": _direct,
}


def _hand_over(module):
    """NIXL registers as a GPU's only what a driver says is one's."""
    kinds_of = module._normalize_kv_mem_kinds
    assert kinds_of(None, 1) == ["VRAM"], "the shim does not fit this SGLang"
    module._normalize_kv_mem_kinds = lambda kinds, count: ["DRAM" for _ in kinds_of(kinds, count)]


_AFTER = {
    f"{_POOLS}common": _common,
    f"{_POOLS}base": _base,
    f"{_POOLS}mha": _copies,
    f"{_POOLS}mla": _copies,
    "sglang.srt.disaggregation.nixl.conn": _hand_over,
}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        change = _AFTER.get(fullname)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
