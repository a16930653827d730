"""The smallest pool (example/mooncake/smallest.yaml) on the real Mooncake 0.3.13.post1, by TCP."""

import os
import threading
import time
from pathlib import Path

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


@pytest.mark.minutes
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


def test_a_client_needs_no_admin_port(pool, tmp_path):
    """The emitted NetworkPolicy admits engines to the other ports only."""
    master = pool.master()
    pool.lead(master)
    pool.stores(2)
    writer, reader = pool.client(tmp_path), pool.client(tmp_path, "engine-1")
    assert writer.ask("put", "a", 0, 16).ok == 16
    assert reader.ask("get", "a", 0, 16).ok == 16
    assert reader.ask("get", "b", 0, 1).missing == 1
    policy = pool.manifest("NetworkPolicy", "pool")["spec"]["ingress"]
    (engines,) = (rule for rule in policy if "namespaceSelector" in rule["from"][0])
    admitted = [(p["port"], p.get("endPort", p["port"])) for p in engines["ports"]]
    clients = {writer.pod.address, reader.pod.address}
    rows = [row for pod in pool.pods for row in connections(pod)]
    listens = {port for port, _, _, state in rows if state == "0A"}
    asked = {port for port, who, _, _ in rows if who in clients}
    asked |= {row[2] for client in (writer, reader) for row in connections(client.pod)}
    asked &= listens  # the other ports are of the asking side
    assert 50051 in asked and 9003 not in asked
    assert all(any(a <= port <= b for a, b in admitted) for port in asked - {7000}), asked


def connections(pod):
    """(own port, who, their port, state) of its connections, a minute after their end too."""
    rows = []
    for name in ("tcp", "tcp6"):
        text = Path(f"/proc/{pod._holder.pid}/net/{name}").read_text()
        rows += [line.split()[1:4] for line in text.splitlines()[1:]]
    for own, other, state in rows:
        (_, _, port), (address, _, theirs) = own.rpartition(":"), other.rpartition(":")
        who = ".".join(str(byte) for byte in bytes.fromhex(address[-8:])[::-1])
        yield int(port, 16), who, int(theirs, 16), state
