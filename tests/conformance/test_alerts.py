"""Alerts that can fire: each names what the real master counts, and counts what goes wrong."""

import re
import urllib.request

from tests.conformance.manifests import Manifest, one
from tests.conformance.mooncake import TIERS, Pool

_NAME = re.compile(r"\bmaster_\w+")


def named(manifests: list[Manifest]) -> dict[str, set[str]]:
    """The metrics in the expression of each alert."""
    (group,) = one(manifests, "PrometheusRule")["spec"]["groups"]
    return {rule["alert"]: set(_NAME.findall(rule["expr"])) for rule in group["rules"]}


def test_mooncake_exports_the_metrics_of_its_alerts(node, engines, tmp_path):
    pool = Pool(node, engines, TIERS / "watched.yaml")
    try:
        alerts = named(pool.manifests)
        assert all(alerts.values()) and "MooncakeWritesFail" in alerts
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
