"""The smallest pool (example/mooncake/smallest.yaml) on the real Mooncake 0.3.13.post1, by TCP."""

import os
import threading
import time

import pytest

from tests.conformance.mooncake import EXAMPLES, Client, Pool, until

# A minute is what users ask for; a shorter outage shows the same, in less of CI's time.
OUTAGE = float(os.environ.get("KV_OFFLOAD_OUTAGE_SECONDS", "20"))
BLOCK = 4 << 20
BLOCKS = 256  # 1 GiB


@pytest.fixture
def pool(node, engines):
    made = Pool(node, engines, EXAMPLES / "smallest.yaml")
    yield made
    made.close()


def test_stores_wait_for_their_master_and_nothing_restarts(pool):
    found = []
    starting = threading.Thread(target=lambda: found.append(pool.store()))
    starting.start()
    time.sleep(5)
    assert not found, "the store's init container did not wait"
    master = pool.master()
    pool.lead(master)
    starting.join(30)
    (store,) = found
    store.wait_ready(30)
    assert "waiting for" in store.containers["await-master"].log
    for pod in (master, store):
        never_restarted(pod)
    (segment,) = pool.used(master)
    assert segment.startswith(f"{store.address}:"), "others could not reach it under that name"


def test_blocks_survive_a_rollout_and_engines_the_loss_of_the_master(pool, tmp_path):
    master = pool.master()
    pool.lead(master)
    stores = pool.stores(3)
    writer, reader = pool.client(tmp_path), pool.client(tmp_path, "engine-1")

    put = writer.ask("put", "a", 0, BLOCKS)
    assert (put.ok, put.failed) == (BLOCKS, 0)
    used = pool.used(master)
    assert sum(used.values()) == BLOCKS * BLOCK
    assert len(used) == 3 and all(used.values()), "every store holds a part"
    assert reader.ask("get", "a", 0, BLOCKS).ok == BLOCKS

    # The emitted preStop moves what one store holds to the others, then it stops.
    rolled = stores.pop()
    seconds, code = rolled.stop()["store"]
    assert code == 0
    read = reader.ask("get", "a", 0, BLOCKS)
    assert (read.ok, read.missing, read.corrupt) == (BLOCKS, 0, 0)
    assert len(pool.used(master)) == 2
    print(f"1 GiB: put in {put.seconds:.1f} s, drained and stopped in {seconds:.0f} s")

    # Without a master engines find nothing, at once, and nobody dies of it.
    outage = threading.Thread(target=lose, args=(master, OUTAGE))
    outage.start()
    time.sleep(OUTAGE / 2)
    alone = writer.ask("put", "b", 0, 1)
    assert alone.ok == 0
    assert alone.seconds < 30
    outage.join()
    back = until(lambda: comes_back(writer, reader), 60)
    print(f"without a master a call takes {alone.seconds:.1f} s; back after {back:.1f} s")
    for pod in (*stores, writer.pod, reader.pod):
        pod.wait_ready(30)
        never_restarted(pod)


def lose(master, seconds: float) -> None:
    """Kill the master as often as the kubelet starts it again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if master.containers["master"].running:
            master.containers["master"].kill()
        time.sleep(0.2)


def comes_back(writer: Client, reader: Client) -> bool:
    return writer.ask("put", "c", 0, 1).ok == 1 and reader.ask("get", "c", 0, 1).ok == 1


def never_restarted(pod) -> None:
    for container in pod.containers.values():
        assert container.killed_by_probe == []
        assert container.exit_codes in ([], [0]), container.log[-3000:]
