"""Alerts that can fire: each names what the real master counts, and counts what goes wrong."""

import re
import urllib.request

import pytest

from kv_offload.docs.metrics import METRICS
from tests.conformance.envs import environment
from tests.conformance.manifests import Manifest, one
from tests.conformance.mooncake import TIERS, Pool

_NAME = re.compile(r"\bmaster_\w+")


def named(manifests: list[Manifest]) -> dict[str, set[str]]:
    """The metrics of a master in the expression of each alert that has some."""
    (group,) = one(manifests, "PrometheusRule")["spec"]["groups"]
    found = {rule["alert"]: set(_NAME.findall(rule["expr"])) for rule in group["rules"]}
    return {alert: names for alert, names in found.items() if names}


def test_mooncake_exports_the_metrics_of_its_alerts(node, engines, tmp_path):
    pool = Pool(node, engines, TIERS / "watched.yaml")
    try:
        alerts = named(pool.manifests)
        assert {"MooncakeWritesFail", "MooncakePoolFull", "MooncakeMasterAbsent"} <= set(alerts)
        master = pool.master()
        pool.lead(master)
        master.wait_ready(60)
        writer = pool.client(tmp_path)
        # Without a store there is no room for anything, and engines write in batches.
        assert writer.ask("batch", "a", 0, 3, size=1000).failed == 3
        with urllib.request.urlopen(f"http://{master.address}:9003/metrics", timeout=10) as answer:
            text = answer.read().decode()
        counted = dict(re.findall(r"^(master_\w+) (\S+)$", text, re.MULTILINE))
        assert set().union(*alerts.values()) <= set(counted)
        assert float(counted["master_batch_put_start_failed_items_total"]) == 3
        assert float(counted["master_batch_put_start_items_total"]) == 3
        assert float(counted["master_total_capacity_bytes"]) == 0
    finally:
        pool.close()


PACKAGES = {"vLLM": "vllm", "LMCache agent": "vllm", "SGLang": "sglang"}
RARE = [row for row in METRICS if row.part in PACKAGES and row.file not in ("", "ours")]


@pytest.mark.parametrize("row", RARE, ids=lambda row: row.name)
def test_packages_name_the_metrics_of_rare_events(row):
    """Counters that appear with their first failure, which no healthy server shows."""
    (folder,) = environment(PACKAGES[row.part]).path.glob("lib/python*/site-packages")
    text = (folder / row.file).read_text()
    stem = row.name.removesuffix("_total")
    # OpenTelemetry's exporter writes a dot as _ and adds the unit.
    meter = stem.replace("lmcache_mp_", "lmcache_mp.").removesuffix("_chunks")
    assert any(f'"{name}"' in text for name in (row.name, stem, meter))
