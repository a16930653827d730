"""What tiers emit for Prometheus: monitors and rules, and the names and entries that they use."""

import json
import re
from pathlib import Path

import pytest
import yaml

from function.backends import monitoring
from function.backends.registry import BACKENDS
from function.composers import conditions, waves
from function.composers.tier_plan import TierPlan, plan
from function.edge.structs import encode
from kv_offload.docs import dashboards, metrics
from kv_offload.docs.metrics import METRICS
from tests.alerts import promtool

ROOT = Path(__file__).parents[3]
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
ALERTS = {rule["alert"]: rule for _, rule in promtool.alerts()}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('rate(vllm:a_total{b=~"c|d"}[5m]) > 0.05 * (x offset 1d)', {"vllm:a_total", "x"}),
        ('sum by (namespace, pod) (a) / on (pod) group_left () b{c="d"}', {"a", "b"}),
        ("absent(up) or vector(0) unless time() - y > 1e3", {"up", "y"}),
        ("histogram_quantile(0.9, sum by (le) (rate(z_bucket[5m])))", {"z_bucket"}),
    ],
)
def test_names_of_a_query(query: str, found: set[str]) -> None:
    assert metrics.names(query) == found


def test_alerts_use_metrics_that_are_known() -> None:
    found = {name: metrics.unknown(rule["expr"]) for name, rule in ALERTS.items()}
    assert {name: names for name, names in found.items() if names} == {}


def test_dashboards_use_metrics_that_are_known() -> None:
    for name, row in dashboards.declared().items():
        for panel in row["panels"]:
            for query in panel["queries"].values():
                assert not metrics.unknown(query), (name, panel["title"])


def test_every_metric_is_used_and_has_its_proof() -> None:
    """A name comes from a pair of the serving suite, or from a file that names it."""
    groups = [group for backend in (*promtool.TIERS, "") for group in promtool.groups(backend)]
    rules = [rule for group in groups for rule in group["rules"]]
    queries = [rule["expr"] for rule in rules]
    queries += [
        query
        for row in dashboards.declared().values()
        for panel in row["panels"]
        for query in panel["queries"].values()
    ]
    used = set().union(*map(metrics.names, queries))
    for row in METRICS:
        assert row.part == "Records" or bool(row.pairs) != bool(row.file), row.name
        parts = {row.name, *(f"{row.name}_{part}" for part in ("bucket", "sum", "count"))}
        assert used & parts, f"{row.name}: nothing uses it"
    records = {rule["record"] for rule in rules if "record" in rule}
    assert records == {row.name for row in METRICS if row.part == "Records"}


def test_dashboards_are_ones_that_grafana_reads() -> None:
    for text in dashboards.files().values():
        found = json.loads(text)
        ids = [panel["id"] for panel in found["panels"]]
        assert len(set(ids)) == len(ids)
        places = [panel["gridPos"] for panel in found["panels"]]
        assert all(place["x"] + place["w"] <= 24 for place in places)
        assert len({(place["x"], place["y"]) for place in places}) == len(places)


def test_every_alert_has_its_runbook_entry() -> None:
    anchors = {title.lower() for title in re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE)}
    for name, rule in ALERTS.items():
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/runbook.md" and anchor == name.lower() and anchor in anchors, name
    known = {name.lower() for name in ALERTS}
    assert anchors <= known, "an entry of an alert that is gone"


def test_alerts_carry_the_name_that_people_gave() -> None:
    for backend, rule in promtool.alerts():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        if backend:
            tier = {key: rule["labels"][key] for key in ("tier", "tier_namespace")}
            assert tier == {"tier": "chat", "tier_namespace": "modelplane-system"}


def keys(spec: dict[str, object]) -> list[str]:
    planned = plan("ns", "chat", spec, encode(spec), BACKENDS)
    assert isinstance(planned, TierPlan), planned
    return [part.key for part in planned.parts]


def test_rules_are_of_what_the_tier_has() -> None:
    spec = {
        "inferenceClusterRef": {"name": "gke"},
        "backend": "NIXL",
        "nixl": {},
        "monitoring": {"podMonitor": True, "enginePorts": [8000]},
    }
    assert keys(spec) == ["namespace", "podmonitor-engines"]
    spec["monitoring"] = {"podMonitor": True, "enginePorts": [8000], "alerts": True}
    assert keys(spec) == ["namespace", "podmonitor-engines", "prometheusrule"]
    planned = plan("ns", "chat", spec, encode(spec), BACKENDS)
    assert isinstance(planned, TierPlan)
    (rule,) = [part.manifest for part in planned.parts if part.key == "prometheusrule"]
    names = {each.get("alert") for each in rule["spec"]["groups"][0]["rules"]}
    assert "KVOffloadHitsFallen" in names and "NIXLTransfersFail" in names
    assert not names & {"KVOffloadAgentsMissing", "KVOffloadEvictorStuck", "LMCacheAgentsAbsent"}


def test_manual_updates_are_no_stopped_roll_out() -> None:
    spec = {
        "inferenceClusterRef": {"name": "gke"},
        "backend": "LMCache",
        "lmcache": {"l1": {"sizeGiB": 8}},
        "upgradePolicy": {"type": "OnDelete"},
        "monitoring": {"alerts": True},
    }
    planned = plan("ns", "chat", spec, encode(spec), BACKENDS)
    assert isinstance(planned, TierPlan)
    (rule,) = [part.manifest for part in planned.parts if part.key == "prometheusrule"]
    rules = rule["spec"]["groups"][0]["rules"]
    names = {each.get("alert") for each in rules}
    assert "KVOffloadAgentsMissing" in names and "KVOffloadRolloutStopped" not in names
    assert not any("record" in each for each in rules), "engines are not scraped"


def test_alerts_of_the_function_are_of_its_metrics() -> None:
    from function.edge import metrics as own

    documents = list(yaml.safe_load_all(promtool.FUNCTION.read_text()))
    assert [document["kind"] for document in documents] == ["PodMonitor", "PrometheusRule"]
    exported = {"function_kv_offload_build_info"} | {
        f"{metric._name}{suffix}"
        for metric, suffix in ((own.CALLS, "_total"), (own.LATENCY, ""), (own.REFUSALS, "_total"))
    }
    assert exported == {row.name for row in METRICS if row.part == "Function"}
    assert monitoring.ALERTS and monitoring.RECORDS


def test_every_reason_of_a_tier_is_in_the_runbook() -> None:
    reasons = {value for name, value in vars(conditions).items() if name.startswith("REASON_")}
    states = {str(state) for state in waves.State} - {"Done", "Progressing"}
    missing = {reason for reason in reasons | states if f"`{reason}`" not in RUNBOOK}
    assert missing == set()
    assert all(f"`{name}`" in RUNBOOK for name in conditions.TIER_CONDITIONS)
