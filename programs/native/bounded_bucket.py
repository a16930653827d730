"""vLLM's level of a bucket (`obj`): while the bucket does not answer, its blocks are misses.

Upstream asks 30 s for a block. Here lookups have a client and LOOKUP seconds; after a failure that
took HANGS, nothing is asked or stored for PAUSE. From function-kv-offload, for vLLM 0.29 to 0.33.
"""

import contextlib
import importlib.util
import os
import time
from typing import Any

from vllm.distributed.nixl_utils import NixlWrapper, nixl_agent_config
from vllm.logger import init_logger
from vllm.v1.kv_offload.tiering.base import JobResult
from vllm.v1.kv_offload.tiering.obj.config import ObjStoreConfig

PAUSE, LOOKUP, HANGS = 10.0, 7.0, 4.0  # seconds
AT_ONCE = 25  # connections of a client
# 6 s; the default mode ignores AWS_MAX_ATTEMPTS
RETRIES = {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "2"}
logger = init_logger(f"vllm.{__name__}")


def _upstream():
    """Return a copy of upstream's module that looks up by the class below."""
    spec: Any = importlib.util.find_spec("vllm.v1.kv_offload.tiering.obj.manager")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _retries():
    """Set what a client reads when it is made. The pod's own values stand."""
    absent = RETRIES.keys() - os.environ.keys()
    os.environ.update({name: RETRIES[name] for name in absent})
    try:
        yield
    finally:
        for name in absent:
            del os.environ[name]


upstream: Any = _upstream()


class Lookups(upstream.ObjAsyncLookupManager):
    def batch_lookup(self, keys, req_context):
        found, until = [], time.monotonic() + LOOKUP
        while len(found) < len(keys) and not self._tier.is_away() and time.monotonic() < until:
            wave = keys[len(found) : len(found) + AT_ONCE]
            named = [(0, 1, 0, self._tier._file_mapper.get_file_name(key)) for key in wave]
            try:
                seen = self._tier.lookup_agent.query_memory(named, "OBJ", "OBJ")
                found += [one is not None for _, one in zip(wave, seen, strict=True)]
            except Exception as problem:
                self._tier.give_up(problem)
        if self._tier.is_away():
            found = []  # none is loaded
        return found + [False] * (len(keys) - len(found))


upstream.ObjAsyncLookupManager = Lookups


class BoundedBucket(upstream.ObjectStoreSecondaryTierManager):
    _away_until, _begun = 0.0, {}

    def __init__(self, *args, store_config, tier_type, io_threads=AT_ONCE, **more):
        own = {"store_config": store_config, "tier_type": "obj", "io_threads": io_threads}
        with _retries():
            super().__init__(*args, **own, **more)
            self.lookup_agent = NixlWrapper("Lookups", nixl_agent_config(backends=[]))
            told = ObjStoreConfig(**store_config).to_nixl_params()
            self.lookup_agent.create_backend("OBJ", {**told, "num_threads": str(AT_ONCE)})

    def is_away(self):
        return time.monotonic() < self._away_until

    def give_up(self, problem):
        if not self.is_away():
            logger.warning("The bucket does not answer: no block for %d s. %s", PAUSE, problem)
        self._away_until = time.monotonic() + PAUSE

    def submit_store(self, job_metadata):
        if self.is_away():
            failed = JobResult(job_id=job_metadata.job_id, success=False)
            self._pending_results.append(failed)
        else:
            super().submit_store(job_metadata)

    def get_finished_jobs(self):
        now = time.monotonic()
        self._begun = {job: self._begun.get(job, now) for job in self._transfers}
        for job in super().get_finished_jobs():
            if not job.success and now - self._begun.get(job.job_id, now) > HANGS:
                self.give_up("Timeout.")
            yield job
