"""The evictor with concurrent readers and writers, which rename temporary files as vLLM does."""

import os
import random
import threading
import time
from pathlib import Path

from tests.evictor.conftest import Start, files, until

SIZE = 16384
GRACE = 4.0
SECONDS = 40.0
FILES = 2000


def content(name: str) -> bytes:
    return (name.encode() + b" ") * (SIZE // (len(name) + 1))


class Traffic:
    """Threads that write, read, and see that nothing young is missing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written: dict[str, float] = {}
        self.lock = threading.Lock()
        self.end = time.monotonic() + SECONDS
        self.wrong: list[str] = []
        self.reads = self.misses = self.lost = 0

    def path(self, name: str) -> str:
        return str(self.root / name[:3] / name[3:5] / f"{name}.bin")

    def write(self, seed: int) -> None:
        draw = random.Random(seed)
        while time.monotonic() < self.end:
            name = f"{draw.getrandbits(64):016x}"
            path = self.path(name)
            temporary = f"{path}_{draw.getrandbits(63)}.tmp"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                file = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            except FileNotFoundError:
                self.lost += 1  # the directory went in between: this block is not kept
                continue
            os.write(file, content(name))
            os.close(file)
            os.replace(temporary, path)
            with self.lock:
                self.written[name] = time.monotonic()
            time.sleep(0.001)

    def read(self, seed: int) -> None:
        draw = random.Random(seed)
        while time.monotonic() < self.end:
            with self.lock:
                names = list(self.written)
            for name in draw.sample(names, min(50, len(names))):
                self.reads += 1
                try:
                    found = Path(self.path(name)).read_bytes()
                except FileNotFoundError:
                    self.misses += 1
                    continue
                if found != content(name):
                    self.wrong.append(f"{name}: {len(found)} bytes")

    def watch(self) -> None:
        while time.monotonic() < self.end:
            now = time.monotonic()
            with self.lock:
                young = [name for name, at in self.written.items() if now - at < GRACE / 2]
            for name in young:
                if not os.path.exists(self.path(name)) and time.monotonic() - now < GRACE / 4:
                    self.wrong.append(f"{name}: gone at {now - self.written[name]:.1f} s")
            time.sleep(0.05)


def test_eviction_with_concurrent_readers_and_writers(tmp_path: Path, start: Start) -> None:
    root = tmp_path / "tier"
    limits = {"bytes": FILES * SIZE, "inodes": 5000, "empties": True}
    workers = [start(root, grace=GRACE, stale=2, **limits) for _ in range(2)]
    traffic = Traffic(root)
    threads = [threading.Thread(target=traffic.write, args=(n,)) for n in range(4)]
    threads += [threading.Thread(target=traffic.read, args=(n,)) for n in range(2)]
    threads += [threading.Thread(target=traffic.watch)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: len(files(root)) <= FILES, "the limit, once nobody writes")
    print(
        f"\n{len(traffic.written)} blocks written ({traffic.lost} not kept), {traffic.reads} read"
        f" ({traffic.misses} gone), {len(files(root))} left"
    )
    assert len(files(root)) > FILES / 2, "more than wanted is gone"
    assert traffic.wrong == []
    assert traffic.misses and len(traffic.written) > FILES
    assert not [path for path in files(root) if path.endswith(".tmp")]
    assert all(worker.metrics()["errors_total"] == 0 for worker in workers)
