"""Failures of common public manifests: the same pool without the parts that they lack.

docs/mooncake.md quotes the outcome.
"""

import copy

import pytest

from tests.conformance.mooncake import EXAMPLES, TIERS, Pool, until

BLOCKS = 60


@pytest.fixture
def pool(node, engines, request):
    made = Pool(node, engines, getattr(request, "param", EXAMPLES / "smallest.yaml"))
    yield made
    made.close()


def test_without_a_local_hostname_every_write_fails(pool, tmp_path):
    pool.lead(pool.master())
    pool.store(0, {"MOONCAKE_LOCAL_HOSTNAME": None}).wait_ready(60)
    did = pool.client(tmp_path).ask("put", "a", 0, 4)
    assert (did.ok, did.failed) == (0, 4), "ready by its own probe, and of no use"


@pytest.mark.minutes
def test_without_a_drain_a_rollout_loses_what_a_store_holds(pool, tmp_path):
    pool.lead(pool.master())
    stores = pool.stores(2)
    template = copy.deepcopy(pool.store_template())
    del template["spec"]["containers"][0]["lifecycle"]
    hasty = pool.run(template, "hasty")
    hasty.wait_ready(60)
    client = pool.client(tmp_path)
    assert client.ask("put", "a", 0, BLOCKS).ok == BLOCKS
    hasty.stop()
    read = client.ask("get", "a", 0, BLOCKS)
    assert 0 < read.missing < BLOCKS
    assert read.ok + read.missing == BLOCKS
    print(f"{read.missing} of {BLOCKS} blocks lost with one of {len(stores) + 1} stores")


@pytest.mark.parametrize("pool", [TIERS / "rdma.yaml"], indirect=True, ids=["rdma"])
def test_rdma_without_a_device_fails_loudly(pool):
    pool.lead(pool.master())
    store = pool.store()
    container = store.containers["store"]
    until(lambda: "retry 3/20" in container.log, 60)
    assert "No available RNIC" in container.log
    assert not store.ready and not container.started

    # The same store without MC_FORCE_HCA goes on by TCP, and says so in its log only.
    silent = pool.store(1, {"MC_FORCE_HCA": None})
    silent.wait_ready(60)
