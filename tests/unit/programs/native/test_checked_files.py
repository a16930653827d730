"""The level of files that vLLM loads, over stand-ins for vLLM's own and for numpy.

What the real level does with a damaged file is the conformance suite's to say (test_native.py), and
what an engine answers then the serving suite's.
"""

import array
import json
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from function.backends.native.connector import CHECKED_FILES

TEXT = CHECKED_FILES.text
SIZE, BLOCKS = 4096, 4
UPSTREAM = """
def batch_store_block(*args): raise NotImplementedError
def batch_load_block(*args): raise NotImplementedError
class FileSystemTierManager:
    def __init__(self, root_dir, tier_type, n_read_threads=16):
        self.root_dir, self.tier_type, self.threads = root_dir, tier_type, n_read_threads
    @classmethod
    def build_metric_definitions(cls, extra_config): return {"upstream": 1}
    def get_stats(self): return None
    def store(self, *args): return batch_store_block(*args)
    def load(self, *args): return batch_load_block(*args)
"""


class Words:
    """An array of 64-bit numbers in rows, as far as ours relies on numpy."""

    def __init__(self, block: Any):
        self.words, self.width = array.array("Q", bytes(block)), 0

    def reshape(self, _: int, width: int) -> "Words":
        self.width = width
        return self

    def sums(self, axis: int) -> array.array:
        rows = range(0, len(self.words), self.width)
        return array.array("Q", (sum(self.words[n : n + self.width]) % 2**64 for n in rows))


class Stats:
    def __init__(self) -> None:
        self.counted: dict[str, int] = {}

    def increase_counter(self, name: str) -> None:
        self.counted[name] = self.counted.get(name, 0) + 1


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of vLLM's module, which a test may replace."""
    package = tmp_path / "vllm/v1/kv_offload/tiering/fs"
    package.mkdir(parents=True)
    (package / "manager.py").write_text(UPSTREAM)
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    metrics = "vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics"
    counter = SimpleNamespace(OffloadingCounterMetadata=lambda documentation: documentation)
    numbers = SimpleNamespace(
        frombuffer=lambda block, kind: Words(block),
        uint64=None,
        add=SimpleNamespace(reduce=Words.sums),
    )
    for name, stub in (
        (metrics, SimpleNamespace(OffloadingConnectorStats=Stats)),
        ("vllm.v1.kv_offload.base", counter),
        ("numpy", numbers),
    ):
        monkeypatch.setitem(sys.modules, name, stub)  # type: ignore[arg-type]
    return package / "manager.py"


def module() -> Any:
    found = ModuleType("ours")
    exec(compile(TEXT, "ours.py", "exec"), found.__dict__)
    return found


class Level:
    """A level of ours over its own memory; `content` is what its blocks were."""

    def __init__(self, root: Path):
        self.ours, self.root = module(), root
        self.tier = self.ours.CheckedFiles(root_dir=str(root), tier_type="CheckedFiles")
        self.memory = mmap.mmap(-1, SIZE * BLOCKS)
        self.content = b"".join(bytes([n + 1]) * SIZE for n in range(BLOCKS))
        self.paths = [
            Path(self.tier.root_dir, f"m_0a1b_r0/0/{n}_g0/{n}.bin") for n in range(BLOCKS)
        ]

    def run(self, do: Callable[..., None]) -> None:
        offsets = [n * SIZE for n in range(BLOCKS)]
        do(list(map(str, self.paths)), memoryview(self.memory), offsets, SIZE, False)

    def store(self) -> None:
        self.memory[:] = self.content
        self.run(self.tier.store)
        self.memory[:] = bytes(len(self.content))

    def load(self) -> None:
        self.run(self.tier.load)

    def counted(self) -> int:
        found: dict[str, int] = self.tier.get_stats().counted
        return sum(found.values())


@pytest.fixture
def level(vllm: Path, tmp_path: Path) -> Iterator[Level]:
    yield Level(tmp_path / "files")


def test_stored_blocks_are_loaded(level: Level) -> None:
    level.store()
    level.load()
    assert bytes(level.memory[:]) == level.content
    assert level.counted() == 0
    assert {path.stat().st_size for path in level.paths} == {SIZE + 4096}


def test_level_keeps_upstreams_name_and_a_directory_of_its_own(level: Level) -> None:
    """Labels of metrics stay; a file without a checksum is never taken for a damaged one."""
    assert level.tier.tier_type == "fs"
    assert level.tier.root_dir == str(level.root / "checked-1")
    made = level.ours.CheckedFiles(root_dir="/r", tier_type="CheckedFiles", n_read_threads=3)
    assert made.threads == 3
    assert set(made.build_metric_definitions({})) == {"upstream", level.ours.DAMAGED}


def zero_half(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(SIZE // 2)
        file.write(bytes(SIZE // 2))


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)


def swap_sectors(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[:512], data[512:1024] = bytes(512), data[:512]
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "half is zero": zero_half,
    "a bit": flip_a_bit,
    "sectors": swap_sectors,
    "empty": lambda path: path.write_bytes(b""),
    "without a checksum": lambda path: os.truncate(path, SIZE),
    "another block's": lambda path: path.write_bytes(
        path.parents[1].joinpath("3_g0/3.bin").read_bytes()
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_a_miss_and_is_removed(level: Level, damage: str) -> None:
    level.store()
    DAMAGES[damage](level.paths[2])
    with pytest.raises(OSError, match="1 damaged files were removed") as failed:
        level.load()
    assert failed.value.num_succeeded == 2  # type: ignore[attr-defined]
    assert bytes(level.memory[: 2 * SIZE]) == level.content[: 2 * SIZE]
    assert [path.exists() for path in level.paths] == [True, True, False, True]
    assert (level.counted(), level.counted()) == (1, 0)


def test_damaged_file_of_another_user_is_said_to_stay(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a miss each time, and counted each time."""
    level.store()
    zero_half(level.paths[2])

    def refuse(path: str) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(os, "remove", refuse)
    for _ in range(2):
        with pytest.raises(OSError, match=r"1 of 1 damaged files cannot be removed: .*/2\.bin"):
            level.load()
        assert level.paths[2].exists() and level.counted() == 1


def test_files_of_nodes_with_other_pages_are_read(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel has pages of 4 KiB or 64, and the shared files are the same."""
    level.store()
    monkeypatch.setattr(level.ours, "PAGE", 65536)
    level.ours._own.__dict__.clear()
    level.load()
    assert bytes(level.memory[:]) == level.content and level.counted() == 0
    for path in level.paths:
        path.unlink()
    level.store()
    assert {path.stat().st_size for path in level.paths} == {SIZE + 65536}
    monkeypatch.setattr(level.ours, "PAGE", 4096)
    level.ours._own.__dict__.clear()
    level.load()
    assert bytes(level.memory[:]) == level.content and level.counted() == 0


def test_page_is_the_kernels(vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "PAGESIZE", 65536)
    assert module().PAGE == 65536


def test_load_waits_for_no_checksum_of_a_store(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    level.store()
    monkeypatch.setattr(level.ours, "_AT_ONCE", SIZE)
    go_on = threading.Event()
    for _ in range(64):
        level.ours._of_stores.submit(go_on.wait)
    try:
        level.load()
    finally:
        go_on.set()
    assert bytes(level.memory[:]) == level.content


def test_every_damaged_file_of_a_job_is_removed(level: Level) -> None:
    level.store()
    for path in level.paths:
        zero_half(path)
    with pytest.raises(OSError, match=r"4 damaged files were removed, the first is .*/0\.bin"):
        level.load()
    assert level.counted() == 4 and not any(path.exists() for path in level.paths)
    level.store()
    level.load()
    assert bytes(level.memory[:]) == level.content


def test_removed_file_is_no_damage(level: Level) -> None:
    """The evictor removes files at any time."""
    level.store()
    level.paths[1].unlink()
    with pytest.raises(FileNotFoundError) as failed:
        level.load()
    assert failed.value.num_succeeded == 1  # type: ignore[attr-defined]
    assert level.counted() == 0
    assert [path.exists() for path in level.paths] == [True, False, True, True]


def test_unreadable_file_stays(level: Level) -> None:
    """An error of the disk says nothing about the bytes."""
    level.store()
    level.paths[3].unlink()
    level.paths[3].mkdir()
    with pytest.raises(IsADirectoryError):
        level.load()
    assert level.paths[3].exists() and level.counted() == 0


def test_blocks_are_checked_in_groups(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    level.store()
    monkeypatch.setattr(level.ours, "_AT_ONCE", 2 * SIZE)
    groups: list[int] = []
    check = level.ours._are_intact
    monkeypatch.setattr(level.ours, "_are_intact", lambda g: groups.append(len(g)) or check(g))
    level.load()
    assert sorted(groups) == [0, 2, 2]


def test_existing_file_is_not_written_again(level: Level) -> None:
    level.store()
    before = [path.stat().st_mtime_ns for path in level.paths]
    level.store()
    assert [path.stat().st_mtime_ns for path in level.paths] == before


def test_failed_write_leaves_nothing(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "writev", lambda *_: SIZE)
    with pytest.raises(OSError, match="not written whole"):
        level.store()
    assert [path for path in level.root.rglob("*") if path.is_file()] == []


def test_another_engine_that_was_first_is_no_error(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some shared file systems refuse to rename over a file."""

    def refuse(unfinished: str, path: str) -> None:
        raise FileExistsError(path)

    monkeypatch.setattr(os, "replace", refuse)
    level.store()
    assert [path for path in level.root.rglob("*") if path.is_file()] == []


def test_offset_outside_of_the_memory_is_refused(level: Level) -> None:
    with pytest.raises(ValueError, match="lies outside"):
        level.ours.load(["/absent"], memoryview(level.memory), [SIZE * BLOCKS], SIZE)


def test_vllm_that_reads_files_in_another_way_stops(vllm: Path) -> None:
    vllm.write_text(UPSTREAM.replace("batch_load_block", "load_blocks"))
    with pytest.raises(RuntimeError, match="has no batch_load_block"):
        module()


def test_upstreams_own_module_stays_as_it_is(level: Level) -> None:
    """A level of the user's own, in another connector, reads its files as before."""
    assert "vllm.v1.kv_offload.tiering.fs.manager" not in sys.modules


def test_module_has_a_name_and_a_bounded_text() -> None:
    assert CHECKED_FILES.name.isidentifier()
    assert len(json.dumps(CHECKED_FILES.text)) < 7 * 1024
