"""vLLM's level of files (`fs`), with a checksum in each file: a damaged file is a miss.

A file is upstream's and one more page, with a checksum of the file's bytes and of its name. A file
that does not match is removed (if this user may), counted and logged, and vLLM computes its tokens
again. Of each 512 bytes the sum as 64-bit numbers is taken, and of all sums CRC-32: faults of disks
change whole sectors, and numpy adds as fast as memory is read. From function-kv-offload, for vLLM
0.29 to 0.33; docs/native.md says what it costs.
"""

import collections
import contextlib
import importlib.util
import mmap
import os
import random
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.v1.kv_offload.base import OffloadingCounterMetadata

FORMAT = "checked-1"  # a directory: files of upstream's class lie elsewhere
DAMAGED = "vllm:kv_offload_tiering_damaged_files"
PAGE = max(4096, mmap.PAGESIZE)  # what O_DIRECT writes at least; some kernels have 64 KiB
_SECTOR = 512
_AT_ONCE = 4 << 20  # bytes that are checked while the next ones are read
_CHECKSUM = struct.Struct("<8sI")
_HELP = "Files of blocks whose checksum or length was wrong; each is a miss."
_damaged = collections.deque()
_own = threading.local()
_checkers = ThreadPoolExecutor(4, "kv_offload_checksum")
_of_stores = ThreadPoolExecutor(4, "kv_offload_checksum")  # a load waits for no store


def _upstream():
    """Return a copy of upstream's module that reads and writes by the functions below."""
    spec: Any = importlib.util.find_spec("vllm.v1.kv_offload.tiering.fs.manager")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, ours in (("batch_store_block", store), ("batch_load_block", load)):
        if not hasattr(module, name):
            raise RuntimeError(f"This vLLM has no {name}: its files cannot be checked.")
        setattr(module, name, ours)
    return module


def checksum(block, path):
    """Return what the page of this file begins with."""
    sums = np.add.reduce(np.frombuffer(block, np.uint64).reshape(-1, _SECTOR // 8), axis=1)
    name = path.rpartition(f"/{FORMAT}/")[2].encode()
    return _CHECKSUM.pack(b"kvsums 1", zlib.crc32(sums, zlib.crc32(name)))


def store(paths, view, offsets, size, direct=True):
    """Write the blocks that have no file yet. Raise OSError at the first that cannot be written."""
    found = zip(_blocks(view, offsets, size), paths)
    absent = [(block, path) for block, path in found if not os.path.exists(path)]
    for (block, path), made in zip(absent, _of_stores.map(lambda one: checksum(*one), absent)):
        _write(path, block, made, os.O_DIRECT if direct else 0)


def load(paths, view, offsets, size, direct=True):
    """Read blocks. Raise OSError, with the number of blocks before the first that failed."""
    problem: Any = None
    checks, unchecked = [], []
    for path, block in zip(paths, _blocks(view, offsets, size)):
        try:
            found = _read(path, block, os.O_DIRECT if direct else 0)
        except OSError as error:
            problem = error
            break
        unchecked.append((block, path, found))
        if len(unchecked) * size >= _AT_ONCE:
            checks.append(_checkers.submit(_are_intact, unchecked))
            unchecked = []
    intact = [one for check in checks for one in check.result()] + _are_intact(unchecked)
    damaged = [path for path, is_intact in zip(paths, intact) if not is_intact]
    _damaged.extend(damaged)
    if damaged:
        stay = [path for path in damaged if not _remove(path)]
        told = f"{len(damaged) - len(stay)} damaged files were removed, the first is {damaged[0]}"
        if stay:
            told = f"{len(stay)} of {len(damaged)} damaged files cannot be removed: {stay[0]}"
        problem = OSError(told)
        del intact[intact.index(False) :]
    if problem:
        problem.num_succeeded = len(intact)
        raise problem


def _remove(path):
    """Return whether the file is gone. Another user's may stay, and is a miss each time."""
    with contextlib.suppress(OSError):
        os.remove(path)
    return not os.path.lexists(path)


def _are_intact(group):
    return [found == checksum(block, path) for block, path, found in group]


def _blocks(view, offsets, size):
    whole = view.cast("B")
    if any(not 0 <= offset <= len(whole) - size for offset in offsets):
        raise ValueError(f"a block of {size} bytes lies outside of {len(whole)}")
    return [whole[offset : offset + size] for offset in offsets]


def _page():
    """Return a page of this thread, aligned for O_DIRECT."""
    if not hasattr(_own, "page"):
        _own.page = mmap.mmap(-1, PAGE)
    return _own.page


def _read(path, block, flags):
    """Fill the block. Return the checksum that the file holds, b"" where it is too short."""
    file, page = os.open(path, os.O_RDONLY | flags), _page()
    try:
        length = os.readv(file, [block, page])
    finally:
        os.close(file)
    # A node with smaller pages has written a shorter one.
    return page[: _CHECKSUM.size] if length >= len(block) + _CHECKSUM.size else b""


def _write(path, block, found, flags):
    page, unfinished = _page(), f"{path}_{random.getrandbits(63)}.tmp"
    page[: len(found)] = found
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        file = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | flags, 0o644)
        try:
            if os.writev(file, [block, page]) < len(block) + PAGE:
                raise OSError(f"{unfinished}: not written whole")
        finally:
            os.close(file)
        os.replace(unfinished, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        if not isinstance(error, FileExistsError):  # some file systems: another engine was first
            raise


class CheckedFiles(_upstream().FileSystemTierManager):
    def __init__(self, *args, root_dir, tier_type, **more):
        # Labels and log lines name the level as upstream does.
        super().__init__(*args, root_dir=f"{root_dir}/{FORMAT}", tier_type="fs", **more)

    @classmethod
    def build_metric_definitions(cls, extra_config):
        counter = {DAMAGED: OffloadingCounterMetadata(documentation=_HELP)}
        return super().build_metric_definitions(extra_config) | counter

    def get_stats(self):
        stats = super().get_stats() or OffloadingConnectorStats()
        while _damaged:
            _damaged.popleft()
            stats.increase_counter(DAMAGED)
        return stats
