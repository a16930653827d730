"""Three masters, an etcd of three members and an oplog, all from one tier's manifests."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.mooncake import TIERS, Client, Pool, until
from tests.conformance.pod import Pod
from tests.tools import find

BLOCKS = 48
HANGS = 25.0  # seconds, more than a lease of etcd's and than a liveness probe allows


@dataclass
class Available:
    """A pool in which one of the masters leads, with its blocks `a` 0 to BLOCKS."""

    members: list[Pod]
    masters: list[Pod]
    stores: list[Pod]
    client: Client

    def has_every_block(self) -> bool:
        return self.client.ask("get", "a", 0, BLOCKS).ok == BLOCKS


@pytest.fixture
def running(node, engines, tmp_path: Path) -> Iterator[Available]:
    pool = Pool(node, engines, TIERS / "ha.yaml")
    try:
        members = pool.etcd(find.require("etcd"))
        for member in members:
            member.wait_ready(60)
            assert member.containers["etcd"].exit_codes == []
        logs = [member.containers["etcd"].log for member in members]
        clusters = {log.split('"cluster-id":"')[1].split('"')[0] for log in logs}
        assert len(clusters) == 1, "one cluster, not one for each member"

        masters = [pool.master(number) for number in range(3)]
        pool.lead(*masters)
        until(lambda: any(master.ready for master in masters), 60)
        assert sum(master.ready for master in masters) == 1, "3 desired, 1 ready"
        stores = pool.stores(2)
        client = pool.client(tmp_path)
        assert client.ask("put", "a", 0, BLOCKS).ok == BLOCKS
        yield Available(members, masters, stores, client)
        for store in stores:
            assert store.containers["store"].exit_codes == []
    finally:
        pool.close()


@pytest.mark.minutes
def test_killed_leader_loses_no_block(running: Available):
    client, masters = running.client, running.masters
    leader = next(master for master in masters if master.ready)
    leader.containers["master"].kill(signal.SIGKILL)
    outage = until(lambda: client.ask("put", "b", 0, 1).ok == 1, 30)
    print(f"carried on {outage:.1f} s after kill -9 of the leader")
    # A new leader answers before it has read the whole oplog: until then some blocks are misses.
    late = until(running.has_every_block, 30 - outage)
    print(f"knew every block {late:.1f} s after its first answer")
    read = client.ask("get", "a", 0, BLOCKS)
    assert (read.ok, read.missing, read.corrupt) == (BLOCKS, 0, 0), "the oplog lost blocks"
    assert sum(master.ready for master in masters) == 1

    for master in masters:
        for seconds, _ in master.stop().values():
            assert seconds < 10, "process 1 did not pass SIGTERM on"


def leader_of(members: list[Pod]) -> Pod:
    """The member that was elected last."""
    (last,) = [m for m in members if "became leader" in m.containers["etcd"].log]
    return last


@pytest.mark.minutes
@pytest.mark.parametrize("how", ["is killed", "hangs"])
def test_etcd_that_goes_loses_no_block(running: Available, how: str):
    """The member that leads, then all at once."""
    sent = signal.SIGKILL if how == "is killed" else signal.SIGSTOP
    turns = {"its leader": [leader_of(running.members)], "every member": running.members}
    for who, turn in turns.items():
        for member in turn:
            member.containers["etcd"].signal_all(sent)
        if how == "hangs":
            slowest, until_then = 0.0, time.monotonic() + HANGS
            while time.monotonic() < until_then:
                slowest = max(slowest, running.client.ask("get", "a", 0, 4).seconds)
                time.sleep(1)
            for member in turn:
                member.containers["etcd"].signal_all(signal.SIGCONT)
            print(f"{who} {how}: the slowest four blocks took {slowest:.1f} s")
        wrote = until(lambda: running.client.ask("put", "b", 0, 1).ok == 1, 60)
        read = until(running.has_every_block, 60)
        print(f"{who} {how}: written after {wrote:.1f} s, every block {read:.1f} s later")
        for member in turn:
            member.wait_ready(60)
        # A member that comes back late may let another master lead, which reads the oplog first.
        until(running.has_every_block, 60)
        did = running.client.ask("get", "a", 0, BLOCKS)
        assert (did.ok, did.missing, did.corrupt) == (BLOCKS, 0, 0)
