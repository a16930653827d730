"""The level of a bucket that vLLM loads, over stand-ins for vLLM's own and for NIXL.

How long the real one waits is the conformance suite's to say (test_native.py), and what an engine
answers meanwhile the serving suite's.
"""

import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from function.backends.native.connector import BOUNDED_BUCKET

UPSTREAM = """
import os
class ObjAsyncLookupManager:
    def __init__(self, tier): self._tier = tier
class ObjectStoreSecondaryTierManager:
    def __init__(self, store_config, prefix, tier_type, io_threads=4):
        self.tier_type, self.threads, self.stored = tier_type, io_threads, []
        self.seen = {name: os.environ.get(name) for name in ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS")}
        self._file_mapper, self._pending_results, self._transfers = prefix, [], {}
        self._lookup_manager = ObjAsyncLookupManager(self)
    def submit_store(self, job): self.stored.append(job.job_id); self.submit_load(job)
    def submit_load(self, job): self._transfers[job.job_id] = job
    def get_finished_jobs(self):
        done, self._pending_results = self._pending_results, []
        for job in done: self._transfers.pop(job.job_id, None)
        return done
"""


class StoreAgent:
    """NIXL's agent: objects by name; it fails where an answer is None."""

    objects: set[str] | None = set()

    def __init__(self, *_: Any) -> None:
        self.asked: list[int] = []

    def create_backend(self, name: str, told: dict[str, str]) -> None:
        self.threads, self.retries = told["num_threads"], os.environ["AWS_RETRY_MODE"]

    def query_memory(self, named: list[Any], *_: str) -> list[object]:
        self.asked.append(len(named))
        if self.objects is None:
            raise RuntimeError("NIXL_ERR_BACKEND")
        return [{} if name in self.objects else None for *_, name in named]


class Lines(list[str]):
    def warning(self, line: str, *facts: object) -> None:
        self.append(line % facts)


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    package = tmp_path / "vllm/v1/kv_offload/tiering/obj"
    package.mkdir(parents=True)
    (package / "manager.py").write_text(UPSTREAM)
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    stubs = {
        "vllm.distributed.nixl_utils": {"NixlWrapper": StoreAgent, "nixl_agent_config": dict},
        "vllm.logger": {"init_logger": lambda _: Lines()},
        "vllm.v1.kv_offload.tiering.base": {"JobResult": SimpleNamespace},
        "vllm.v1.kv_offload.tiering.obj.config": {
            "ObjStoreConfig": lambda **_: SimpleNamespace(to_nixl_params=dict)
        },
    }
    for name, words in stubs.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**words))  # type: ignore[arg-type]
    found: Any = ModuleType("ours")
    exec(compile(BOUNDED_BUCKET.text, "ours.py", "exec"), found.__dict__)
    found.now = 0.0
    found.__dict__["time"] = SimpleNamespace(monotonic=lambda: found.now)
    monkeypatch.setattr(StoreAgent, "objects", {"k1", "k30"})
    return found


@pytest.fixture
def bucket(ours: Any) -> Any:
    mapper = SimpleNamespace(get_file_name=lambda key: f"k{key}")
    return ours.BoundedBucket(store_config={}, prefix=mapper, tier_type="BoundedBucket")


def lookup(bucket: Any, keys: int = 60) -> list[int]:
    """Return the keys that are found."""
    found = bucket._lookup_manager.batch_lookup(list(range(keys)), None)
    assert len(found) == keys
    return [key for key, is_there in enumerate(found) if is_there]


def test_lookups_find_what_is_there(bucket: Any) -> None:
    assert lookup(bucket) == [1, 30]
    assert bucket.lookup_agent.asked == [25, 25, 10]
    assert (bucket.tier_type, bucket.threads, bucket.lookup_agent.threads) == ("obj", 25, "25")


def test_bucket_that_fails_is_asked_once_and_left_alone(
    ours: Any, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoreAgent, "objects", None)
    assert lookup(bucket) == lookup(bucket) == []
    assert bucket.lookup_agent.asked == [25]
    assert ours.logger == ["The bucket does not answer: no block for 10 s. NIXL_ERR_BACKEND"]
    ours.now = ours.PAUSE
    monkeypatch.setattr(StoreAgent, "objects", {"k1"})
    assert lookup(bucket) == [1]


@pytest.mark.parametrize("answer", [None, [{}]], ids=["fails", "is too short"])
def test_what_was_found_before_a_failure_is_not_loaded(
    bucket: Any, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    ask = bucket.lookup_agent.query_memory

    def second_fails(named: list[Any], *more: str) -> Any:
        if len(bucket.lookup_agent.asked) == 1:
            bucket.lookup_agent.asked.append(0)
            return answer
        return ask(named, *more)

    monkeypatch.setattr(bucket.lookup_agent, "query_memory", second_fails)
    assert lookup(bucket) == []
    assert bucket.lookup_agent.asked == [25, 0]


def test_nothing_is_stored_in_a_bucket_that_does_not_answer(ours: Any, bucket: Any) -> None:
    bucket.submit_store(SimpleNamespace(job_id=1))
    bucket.give_up("")
    bucket.submit_store(SimpleNamespace(job_id=2))
    ours.now = ours.PAUSE
    bucket.submit_store(SimpleNamespace(job_id=3))
    assert bucket.stored == [1, 3]
    assert [(r.job_id, r.success) for r in bucket._pending_results] == [(2, False)]


@pytest.mark.parametrize("kind", ["submit_store", "submit_load"])
@pytest.mark.parametrize(
    ("seconds", "success", "away"), [(6, False, True), (1, False, False), (6, True, False)]
)
def test_load_or_store_that_fails_late_is_a_bucket_that_hangs(
    ours: Any, bucket: Any, kind: str, seconds: float, success: bool, away: bool
) -> None:
    """One that fails at once waits for nobody: an object is gone, or the key may only read."""
    getattr(bucket, kind)(SimpleNamespace(job_id=1))
    assert list(bucket.get_finished_jobs()) == []
    ours.now = seconds
    bucket._pending_results.append(SimpleNamespace(job_id=1, success=success))
    assert [job.job_id for job in bucket.get_finished_jobs()] == [1]
    assert bucket.is_away() is away
    assert lookup(bucket) == ([] if away else [1, 30])


def test_store_that_was_not_tried_does_not_prolong_the_pause(ours: Any, bucket: Any) -> None:
    bucket.give_up("")
    bucket.submit_store(SimpleNamespace(job_id=1))
    ours.now = ours.PAUSE
    assert [job.success for job in bucket.get_finished_jobs()] == [False]
    assert not bucket.is_away()


def test_lookup_ends_in_time(ours: Any, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that answers each question late: what was found by then is a hit."""
    usual = StoreAgent.query_memory

    def late(agent: StoreAgent, named: list[Any], *more: str) -> list[object]:
        ours.now += 5
        return usual(agent, named, *more)

    monkeypatch.setattr(StoreAgent, "query_memory", late)
    monkeypatch.setattr(StoreAgent, "objects", {"k1", "k30", "k70"})
    assert lookup(bucket, 1000) == [1, 30] and ours.now == 10
    assert not bucket.is_away()


def test_only_the_levels_clients_try_less_often(
    bucket: Any, ours: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine may load its weights by the same SDK; a pod's own value stands."""
    assert bucket.seen == {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "2"}
    assert bucket.lookup_agent.retries == "standard"
    assert not set(ours.RETRIES) & os.environ.keys()
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    own = ours.BoundedBucket(store_config={}, prefix=None, tier_type="", io_threads=3)
    assert own.seen == {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "7"}
    assert (os.environ["AWS_MAX_ATTEMPTS"], own.threads) == ("7", 3)


def test_module_has_a_name_and_a_bounded_text() -> None:
    assert BOUNDED_BUCKET.name.isidentifier()
    assert len(json.dumps(BOUNDED_BUCKET.text)) < 5 * 1024
