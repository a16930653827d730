"""What a tier may choose beside the smallest: blocks on disk, and blocks on the engine's node."""

from pathlib import Path

import pytest

from tests.conformance.mooncake import EXAMPLES, TIERS, Pool, until

BLOCKS = 8
# Blocks go to disk in batches: 8 of 4 MiB stay in memory for a minute and more. Of 80, the store of
# a busy machine wrote 21 within seconds and none of the others in 80 s.
MANY, WRITTEN = 80, 16


@pytest.fixture
def pool(node, engines, request):
    made = Pool(node, engines, request.param)
    yield made
    made.close()


def is_written(folder: Path) -> bool:
    """Whether so many blocks are on disk, in buckets that are whole: a bucket's metadata are
    written after its data, and one without them is dropped when its store ends.
    """
    files = list(folder.rglob("*"))
    whole = sum(f.suffix == ".meta" for f in files) >= sum(f.suffix == ".bucket" for f in files)
    return whole and sum(f.stat().st_size for f in files) > WRITTEN << 22


@pytest.mark.minutes
@pytest.mark.parametrize("pool", [EXAMPLES / "ssd.yaml"], indirect=True, ids=["ssd"])
def test_blocks_reach_the_disk_and_survive_the_store(pool, tmp_path):
    """One store, so that the drain has nowhere to go: what is on its disk comes back with it."""
    pool.lead(pool.master())
    store = pool.store()
    store.wait_ready(60)
    client = pool.client(tmp_path)
    assert client.ask("put", "a", 0, MANY).ok == MANY
    (path,) = (v["hostPath"]["path"] for v in pool.store_volumes() if "hostPath" in v)
    assert path.startswith("/mnt/nvme/mooncake/"), "a folder of the tier's own below the given one"
    folder = pool.node.volume("host", path)
    until(lambda: is_written(folder), 240)
    assert folder.stat().st_uid == 65532, "the store's user owns what the kubelet made as root"
    seconds, code = store.stop()["store"]
    assert code == 0
    assert seconds < 60, "a drain without another store ends at once"
    pool.store(1).wait_ready(60)
    until(lambda: client.ask("get", "a", 0, MANY).ok >= WRITTEN, 180)


@pytest.mark.parametrize("pool", [TIERS / "local.yaml"], indirect=True, ids=["local"])
def test_blocks_stay_on_the_engines_node(pool, tmp_path):
    """By metadata http a client goes by its node's name, and its blocks to the store of that name.

    The node's name is the host name of a store here; a second store goes by another.
    """
    master = pool.master()
    pool.lead(master)
    pool.store().wait_ready(60)
    pool.store(1, {"MOONCAKE_LOCAL_HOSTNAME": "node-b"}).wait_ready(60)
    client = pool.client(tmp_path, host=pool.node.name)
    assert client.ask("put", "a", 0, BLOCKS).ok == BLOCKS
    held = {name.rpartition(":")[0]: used for name, used in pool.used(master).items()}
    assert held == {pool.node.name: BLOCKS * (4 << 20), "node-b": 0}
    assert client.ask("get", "a", 0, BLOCKS).ok == BLOCKS
