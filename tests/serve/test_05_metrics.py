"""Metrics: the PodMonitors scrape every process, and each exports what alerts and dashboards use.

Counters must exist from the start or from the first traffic: one that appears with its first event
never reads zero, and the alert on no hits would not fire without hits.
"""

import re
from collections.abc import Mapping

import pytest

from kv_offload.docs.metrics import METRICS, unknown
from tests.conformance.pod import Pod
from tests.serve.engine import Engine, parse_metrics, prompt, scrape
from tests.serve.fleet import LLAMA, Fleet
from tests.serve.test_10_hits import settle
from tests.serve.watching import expressions, targets

_PART = re.compile(r"_(bucket|sum|count)$")


@pytest.mark.pairs(
    "vllm-mooncake",
    "vllm-lmcache",
    "vllm-lmcache-disk",
    "vllm-native",
    "sglang-mooncake",
    "sglang-hicache-file",
)
def test_every_alert_metric_is_exported(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    (engine,) = fleet.ready("first")
    for _ in range(2):
        engine.ask(prompt(9))
        settle(fleet, engine)
        engine.forget()
    proof("alerts", names=_exported(fleet, engine, fleet.tier.parts))


@pytest.mark.pairs("vllm-nixl")
def test_every_alert_metric_of_a_decode_engine_is_exported(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    prefill, decode = fleet.prefill_and_decode()
    prefill.through(decode, prompt(10))
    proof("alerts", names=_exported(fleet, decode, {}))


def _exported(fleet: Fleet, engine: Engine, parts: Mapping[str, Pod]) -> int:
    """Check that the PodMonitors find each process, and that these export the pair's metrics."""
    manifests = fleet.declared.manifests
    pods = {**parts, "engine": engine.pod}
    pages = {
        name: [scrape(url) for url in targets(manifests, pod, pod.labels)]
        for name, pod in pods.items()
    }
    assert {name: len(found) for name, found in pages.items()} == dict.fromkeys(pods, 1)
    counted = {
        re.split(r"[{ ]", sample, maxsplit=1)[0]
        for found in pages.values()
        for page in found
        for sample in parse_metrics(page)
    }
    counted |= {_PART.sub("", name) for name in counted}
    expected = {metric.name for metric in METRICS if fleet.pair.name in metric.pairs}
    assert expected and expected <= counted, sorted(expected - counted)
    alerts = expressions(manifests)
    assert alerts and {name: unknown(text) for name, text in alerts.items() if unknown(text)} == {}
    return len(expected)
