"""The preStop program against a fake master, in every way a drain may end."""

from collections.abc import Iterator
from typing import Any

import pytest

from programs.mooncake import drain
from tests.unit.programs.mooncake.admin import Admin, Handler

HOST = "10.0.0.5"
MINE = {"segment_name": f"{HOST}:12300", "status": "OK"}
OTHER = {"segment_name": "10.0.0.50:12300", "status": "OK"}
GONE = {"segment_name": "10.0.0.6:12300", "status": "DRAINING"}


def job(status: str, moved: int = 0, blocked: int = 0, failed: int = 0) -> dict[str, Any]:
    return {
        "success": True,
        "status_name": status,
        "succeeded_units": moved,
        "blocked_units": blocked,
        "failed_units": failed,
        "migrated_bytes": moved * 10,
    }


class Master(Admin):
    """Answers with its lists, the last one for ever; remembers what it was asked to do."""

    def __init__(self, segments: list[Any], jobs: list[Any], created: Any = None) -> None:
        self.segments, self.jobs = segments, jobs
        self.created = created or {"success": True, "job_id": "7"}
        self.asked: list[Any] = []
        outer = self

        class Answers(Handler):
            def do_GET(self) -> None:
                queue = outer.jobs if "query" in self.path else outer.segments
                found = queue.pop(0) if len(queue) > 1 else queue[0]
                self.say({"segments": found} if isinstance(found, list) else found)

            def do_POST(self) -> None:
                outer.asked.append((self.path, self.body()))
                self.say(outer.created)

            def say(self, value: Any) -> None:
                self.answer(value, value.pop("code", 200) if isinstance(value, dict) else 200)

        super().__init__(Answers)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    said: list[str] = []
    monkeypatch.setattr(drain, "POLL", 0.01)
    monkeypatch.setattr(drain, "PATIENCE", 0.1)
    monkeypatch.setattr(drain, "say", said.append)
    monkeypatch.setenv("MOONCAKE_LOCAL_HOSTNAME", HOST)
    yield said


# name: (segments, answers about the job, what is said at the end)
RUNS: dict[str, tuple[list[Any], list[Any], str]] = {
    "everything moves": (
        [[MINE, OTHER]],
        [job("RUNNING", blocked=3), job("SUCCEEDED", moved=3)],
        "SUCCEEDED: 3 blocks, 30 bytes moved, 0 are lost",
    ),
    "some do not": (
        [[MINE, OTHER]],
        [job("FAILED", moved=2, failed=1)],
        "FAILED: 2 blocks, 20 bytes moved, 1 are lost",
    ),
    "not in time": (
        [[MINE, OTHER]],
        [job("RUNNING", moved=1, blocked=9)],
        "out of time: 1 blocks, 10 bytes moved, 9 are lost",
    ),
    "nowhere to go": ([[MINE, GONE]], [], "no other store takes blocks: all are lost"),
    "nowhere to go any more": (
        [[MINE, OTHER], [MINE, OTHER], [MINE, GONE]],
        [job("RUNNING", blocked=4)],
        "no other store takes blocks: 4 are lost",
    ),
    "not registered": ([[OTHER]], [], "no segment of this store is registered: nothing to move"),
    "nonsense": ([{"segments": None}], [], "TypeError"),
    "nothing of the kind": ([{"code": 500}], [], "no answer of"),
}


@pytest.mark.parametrize("name", RUNS)
def test_drain_requests_and_outcome(name: str, hurry: list[str]) -> None:
    segments, jobs, end = RUNS[name]
    master = Master(segments, jobs)
    drain.main(master.url, "0.5", "16")
    assert hurry[-1].startswith(end)
    wanted = [("/api/v1/drain_jobs", {"segments": [MINE["segment_name"]], "max_concurrency": 16})]
    assert master.asked == (wanted if jobs else [])


def test_missing_master_ends_the_drain(hurry: list[str]) -> None:
    drain.main("http://127.0.0.1:1", "5", "16")
    assert hurry[-1].startswith("no answer of http://127.0.0.1:1")


def test_drain_restarts_on_another_master(hurry: list[str]) -> None:
    unknown = {"success": False, "error_message": "no such job"}
    jobs = [job("RUNNING", blocked=2), unknown, job("SUCCEEDED", moved=2)]
    master = Master([[MINE, OTHER]], jobs)
    drain.main(master.url, "5", "16")
    assert len(master.asked) == 2
    assert hurry[-1].startswith("SUCCEEDED: 2 blocks")


def test_blocks_on_disk_are_returned(hurry: list[str]) -> None:
    master, store = Master([[OTHER]], []), Master([], [])
    drain.main(master.url, "5", "16", store.url)
    assert store.asked == [("/api/unmount_local_disk", {"grace_period_seconds": 1})]
    drain.main(master.url, "5", "16", "http://127.0.0.1:1")
    assert "not handed back" in hurry[-1]
