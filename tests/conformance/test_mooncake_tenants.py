"""Quotas of namespaces in one pool: the real master at a full quota and during edits."""

import json
import subprocess

import pytest

from tests.conformance.envs import environment
from tests.conformance.mooncake import GIB, SIZE, TIERS, Pool, engine, until
from tests.conformance.test_mooncake_engines import SGLANG

TIER = TIERS / "tenants.yaml"
BLOCK = 4 << 20
SMALLER = 16  # than the tier says, the stores and the shares alike
A, B, OTHERS = (gib * GIB // SMALLER for gib in (2, 3, 1))
FITS = A // BLOCK


@pytest.fixture
def pool(node, engines):
    made = Pool(node, engines, TIER)
    files = made.manifest("ConfigMap", "tenants")
    node.config_maps[files["metadata"]["name"]] = {
        name: json.dumps(smaller(json.loads(text))) for name, text in files["data"].items()
    }
    yield made
    made.close()


def smaller(policy):
    rows = [row | {"quota": row["quota"] // SMALLER} for row in policy["tenants"]]
    return policy | {"tenants": rows}


def held(pool, master):
    rows = pool.admin(master, "/api/v1/tenant_quotas")["data"]
    return {row["tenant_id"]: row["charged_bytes"] for row in rows}


def shares(pool, master):
    rows = pool.admin(master, "/api/v1/tenant_quotas")["data"]
    return {row["tenant_id"]: row["requested_quota_bytes"] for row in rows}


@pytest.mark.minutes
def test_namespace_at_its_quota_evicts_only_its_own_blocks(pool, tmp_path):
    master = pool.master()
    pool.lead(master)
    size = {SIZE: str(4 * GIB // SMALLER)}
    stores = [pool.store(number, size) for number in range(2)]
    for store in stores:
        store.wait_ready(60)
    a, b, c = (
        pool.client(tmp_path, f"engine-{team[-1]}", namespace=team)
        for team in ("team-a", "team-b", "team-c")
    )
    assert shares(pool, master) == {"team-a": A, "team-b": B, "default": OTHERS}

    # Equal keys of two tenants are two blocks.
    assert b.ask("put", "x", 0, 8).ok == 8
    assert c.ask("put", "y", 0, 8).ok == 8
    for asked in (a.ask("get", "x", 0, 8), c.ask("get", "x", 0, 8), a.ask("get", "y", 0, 8)):
        assert (asked.ok, asked.missing) == (0, 8)

    # One and a half times its share: every write goes through, and its own blocks make room.
    # Engines write in batches.
    put = a.ask("batch", "x", 0, FITS * 3 // 2)
    assert (put.ok, put.failed) == (FITS * 3 // 2, 0)
    assert held(pool, master) == {"team-a": A, "team-b": 8 * BLOCK, "default": 8 * BLOCK}
    assert b.ask("get", "x", 0, 8).ok == 8
    read = a.ask("get", "x", 0, FITS * 3 // 2)
    assert (read.ok, read.corrupt) == (FITS, 0)

    # All its blocks are under the leases of that read: writes are refused until those end, its own
    # only, and nothing dies of it.
    assert a.ask("batch", "z", 0, 1).failed == 1
    assert b.ask("put", "z", 0, 1).ok == 1
    until(lambda: a.ask("put", "z", 0, 1).ok == 1, 30)

    # A store stops, and a namespace at its share loses nothing of it.
    kept = a.ask("get", "x", 0, FITS * 3 // 2).ok + a.ask("get", "z", 0, 1).ok
    assert kept == FITS
    _, code = stores.pop().stop()["store"]
    assert code == 0
    assert a.ask("get", "x", 0, FITS * 3 // 2).ok + a.ask("get", "z", 0, 1).ok == kept
    assert b.ask("get", "x", 0, 8).ok == 8
    until(lambda: shares(pool, master) == {"team-a": A, "team-b": B, "default": OTHERS}, 30)

    # An edit comes to the master that runs: no block is forgotten.
    file = master.volume("tenants") / "tenants.json"
    policy = json.loads(file.read_text())
    rows = {row["name"]: row for row in policy["tenants"]}
    rows["team-a"]["quota"] //= 2
    rows["team-c"] = {"name": "team-c", "quota": BLOCK}
    del rows["team-b"]
    file.write_text(json.dumps(policy | {"tenants": list(rows.values())}))
    edited = {"team-a": A // 2, "team-c": BLOCK, "default": OTHERS}
    until(lambda: shares(pool, master) == edited, 30)
    assert c.ask("get", "y", 0, 8).ok == 8
    until(lambda: a.ask("put", "v", 0, 1).ok == 1, 30)
    assert held(pool, master)["team-a"] <= A // 2
    assert b.ask("put", "v", 0, 1).failed == 1, "nobody who has no share writes"
    for name in ("master", "keep-tenants"):
        assert master.containers[name].exit_codes == []


def test_sglang_names_its_tenant(tmp_path):
    for namespace, tenant in (("team-b", "team-b"), ("team-c", "default")):
        template, _ = engine(TIER, tmp_path, "sglang", namespace)
        (found,) = template["spec"]["containers"]
        words = [*found.get("command", ()), *found.get("args", ())]
        text = words[words.index("--hicache-storage-backend-extra-config") + 1]
        done = subprocess.run(
            [environment("sglang").python, "-c", SGLANG, text], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["tenant_id"] == tenant
