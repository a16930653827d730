"""What vLLM's own level of files does with our class's reading and writing.

    python checked_files.py FOLDER MODULE_PATH...

MODULE_PATH: where our module is imported from. Prints what each damage led to, as JSON.
"""

import json
import mmap
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from vllm.v1.kv_offload.base import LookupResult, make_offload_key
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

SIZE, BLOCKS = 64 * 1024, 8
_IDS = next(name for name in ("chunk_ids", "block_ids") if name in TransferJob.__annotations__)


def spec():
    """As much of an engine's configuration as files' names are made of."""
    group = SimpleNamespace(tokens_per_block=16, layer_names=("a",))
    parallel = SimpleNamespace(
        tp_size=1, pp_size=1, pcp_size=1, dcp_size=1, rank=0, is_parallelism_agnostic=False
    )
    config = SimpleNamespace(
        groups=(group,),
        parallel=parallel,
        model=SimpleNamespace(name="tiny", dtype="bfloat16"),
        cache=SimpleNamespace(tokens_per_hash=16),
        canonical_layout=False,
        kv_cache_layout=None,
        replicated_layout=False,
    )
    events = SimpleNamespace(enable_kv_cache_events=False)
    return SimpleNamespace(config=config, blocks_per_chunk=1, kv_events_config=events)


class Level:
    """A level over its own memory, by vLLM's factory: of files, where it has a folder."""

    def __init__(self, root, blocks=BLOCKS, size=SIZE, **config):
        self.blocks, self.size, self.jobs = blocks, size, 0
        self.memory = np.frombuffer(mmap.mmap(-1, blocks * size), np.uint8).reshape(blocks, size)
        self.keys = [make_offload_key(bytes([1, n % 251, n // 251]) * 10, 0) for n in range(blocks)]
        level = {"root_dir": str(root), **config} if root else config
        view = memoryview(self.memory)
        self.tier = SecondaryTierFactory.create_secondary_tier(level, view, spec())

    def file(self, block):
        return Path(self.tier.file_mapper.get_file_name(self.keys[block]))

    def run(self, submit, blocks=None):
        """Return the result of a job over these blocks."""
        ids = np.array(range(self.blocks) if blocks is None else blocks, np.int32)
        request, self.jobs = SimpleNamespace(req_id="r"), self.jobs + 1
        told = {"job_id": self.jobs, "keys": [self.keys[n] for n in ids], _IDS: ids}
        submit(
            TransferJob(**told, is_promotion=submit == self.tier.submit_load, req_context=request)
        )
        while not (done := list(self.tier.get_finished_jobs())):
            time.sleep(0.001)
        return done[0]

    def hits(self, request="r"):
        """Return whether each block is found, as a scheduler asks over several steps."""
        request, found = SimpleNamespace(req_id=request), [LookupResult.RETRY] * self.blocks
        while LookupResult.RETRY in found:
            found = [self.tier.lookup(key, request) for key in self.keys]
            self.tier._lookup_manager.flush()
        return [one == LookupResult.HIT for one in found]

    def counted(self):
        stats = self.tier.get_stats()
        return sum(value for row in stats.data["data"].values() for value in row.values())


def zero_half(file):
    with open(file, "r+b") as stream:
        stream.seek(SIZE // 2)
        stream.write(bytes(SIZE // 2))


def truncate(file):
    os.truncate(file, SIZE)


def swap_sectors(file):
    data = bytearray(file.read_bytes())
    data[:512], data[512:1024] = data[512:1024], data[:512]
    file.write_bytes(data)


def flip_a_bit(file):
    data = bytearray(file.read_bytes())
    data[12345] ^= 4
    file.write_bytes(data)


DAMAGES = {
    "zero half": zero_half,
    "truncate": truncate,
    "swap sectors": swap_sectors,
    "flip a bit": flip_a_bit,
}


def main():
    folder, module = Path(sys.argv[1]), sys.argv[2]
    ours = {"type": "CheckedFiles", "module_path": module}
    said = {}
    for name, damage in {"nothing": None, **DAMAGES, "another's": None, "gone": None}.items():
        level = Level(folder / name, **ours)
        content = np.random.default_rng(1).integers(0, 256, level.memory.shape, dtype=np.uint8)
        level.memory[:] = content
        assert level.run(level.tier.submit_store).success
        level.memory[:] = 0
        if damage:
            damage(level.file(5))
        if name == "another's":
            os.replace(level.file(6), level.file(5))
        if name == "gone":
            level.file(5).unlink()
        assert level.hits()[:5] == [True] * 5
        done = level.run(level.tier.submit_load)
        kept = level.keys if done.success else done.successful_keys or ()
        right = all((level.memory[n] == content[n]).all() for n in range(len(kept)))
        said[name] = {
            "success": done.success,
            "kept": len(kept),
            "right": right,
            "counted": level.counted(),
            "file": level.file(5).exists(),
            "hits": level.hits(),
            "label": level.tier.tier_type,
        }
        # The engine computes the tokens again and stores them: the next load is whole.
        level.memory[:] = content
        assert level.run(level.tier.submit_store).success
        level.memory[:] = 0
        again = level.run(level.tier.submit_load)
        said[name]["again"] = bool(again.success and (level.memory == content).all())
        level.tier.shutdown()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
