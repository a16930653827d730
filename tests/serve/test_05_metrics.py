"""Metrics: the PodMonitors scrape every process, and each exports the counters of the alerts.

Counters must exist from the start: one that appears with its first event never reads zero, and the
alert on no hits would not fire without hits.
"""

import re

import pytest

from tests.serve.engine import parse_metrics, prompt, scrape
from tests.serve.fleet import LLAMA, Fleet
from tests.serve.test_10_hits import settle
from tests.serve.watching import targets, watched


@pytest.mark.pairs("vllm-mooncake", "vllm-lmcache", "vllm-native", "sglang-mooncake")
def test_every_alert_metric_is_exported(fleet: Fleet, proof) -> None:
    manifests = fleet.declared.manifests
    spec = fleet.declared.document["spec"]
    fleet.prepare(LLAMA)
    (engine,) = fleet.ready("first")
    engine.ask(prompt(9))
    settle(fleet, engine)
    pods = dict(fleet.tier.parts)
    if "enginePorts" in spec["monitoring"]:
        pods["engine"] = engine.pod
    pages = {
        name: [scrape(url) for url in targets(manifests, pod, pod.labels)]
        for name, pod in pods.items()
    }
    assert {name: len(found) for name, found in pages.items()} == dict.fromkeys(pods, 1)
    counted = {
        re.split(r"[{ ]", sample, maxsplit=1)[0]
        for name in fleet.tier.parts
        for page in pages[name]
        for sample in parse_metrics(page)
    }
    alerts = watched(manifests)
    assert bool(alerts) == bool(spec[spec["backend"].lower()].get("alerts"))
    assert all(alerts.values())
    missing = {alert: sorted(names - counted) for alert, names in alerts.items()}
    assert missing == {alert: [] for alert in alerts}
    proof("alerts", names=sum(map(len, alerts.values())))
