"""What Prometheus scrapes of a tier, and when it alerts: PodMonitors and one PrometheusRule."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from function.api.tier import Monitoring
from function.contract.backend import AnyBackend, AnyTier, Manifest, Part
from function.contract.rules import CANARY, ENGINES, Alert, RecordedSeries
from function.engines import registry
from function.facts import Table
from function.kube import manifests as k

_RULES = Path(__file__).with_name("rules.yaml")
RECORDS = Table(RecordedSeries, _RULES, "records")
ALERTS = Table(Alert, _RULES, "alerts")


def pod_monitor(
    tier: AnyTier,
    name: str,
    selector: Manifest,
    ports: Sequence[str],
    pod_labels: Sequence[str] = ("app.kubernetes.io/instance",),
) -> Manifest | None:
    """Return a PodMonitor of the pods of `selector`, None unless the tier asks for it."""
    monitoring = tier.spec.monitoring
    if monitoring is None or not monitoring.pod_monitor:
        return None
    endpoints = [{"port": port} for port in ports]
    return _monitor(tier, monitoring, name, {"selector": selector}, endpoints, pod_labels)


def monitored(tier: AnyTier, backend: AnyBackend, parts: list[Part]) -> list[Part]:
    """Return a tier's parts with the monitor of engines and the rules, where it asks for them."""
    monitoring = tier.spec.monitoring
    if monitoring is None:
        return parts
    added = [
        *(_engines(tier, monitoring) if monitoring.engine_ports else ()),
        *(_rules(tier, monitoring, backend, parts) if monitoring.alerts else ()),
    ]
    if added and not any(part.key == "namespace" for part in parts):
        parts = [Part("namespace", k.namespace(tier.remote_namespace), keep=True), *parts]
    return [*parts, *added]


def _engines_name(tier: AnyTier) -> str:
    return f"{tier.remote_name}-{ENGINES}"


def _engines(tier: AnyTier, monitoring: Monitoring) -> Iterator[Part]:
    labels = tier.wired_labels
    pods: Manifest = {"namespaceSelector": {"any": True}, "selector": {"matchLabels": labels}}
    endpoints = [{"portNumber": port} for port in monitoring.engine_ports]
    monitor = _monitor(tier, monitoring, _engines_name(tier), pods, endpoints, [*labels])
    yield Part(f"podmonitor-{ENGINES}", monitor)


def _monitor(
    tier: AnyTier,
    monitoring: Monitoring,
    name: str,
    pods: Manifest,
    endpoints: Sequence[Manifest],
    pod_labels: Sequence[str],
) -> Manifest:
    every = f"{monitoring.interval_seconds}s"
    labels = {**monitoring.pod_monitor_labels, **tier.labels}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": k.metadata(name, tier.remote_namespace, labels),
        "spec": {
            **pods,
            "podMetricsEndpoints": [
                {**endpoint, "path": "/metrics", "interval": every} for endpoint in endpoints
            ],
            "podTargetLabels": list(pod_labels),
        },
    }


def _rules(
    tier: AnyTier, monitoring: Monitoring, backend: AnyBackend, parts: Sequence[Part]
) -> Iterator[Part]:
    """Yield the PrometheusRule, with the labels of the PodMonitors.

    Its records and alerts have the tier's own name and namespace as labels: the name on the
    cluster has a hash.
    """
    labels = {"tier": tier.name, "tier_namespace": tier.namespace}
    texts = {
        "<tier>": tier.remote_name,
        "<engines>": f'job="{tier.remote_namespace}/{_engines_name(tier)}"',
        "<labels>": ",".join(f'{name}="{value}"' for name, value in labels.items()),
    }

    def expression(text: str) -> str:
        for name, value in texts.items():
            text = text.replace(name, value)
        return text

    has = {"", *_has(parts), *([ENGINES] if monitoring.engine_ports else [])}
    observe = tier.spec.observe
    has |= {CANARY} if observe is not None and observe.canary is not None else set()
    records = [record for kind in registry.kinds() for record in kind.records]
    rules: list[Manifest] = [
        {"record": row.name, "expr": expression(row.expression), "labels": labels}
        for row in ([*records, *RECORDS] if ENGINES in has else ())
    ]
    rules += [
        {
            "alert": row.name,
            "expr": expression(row.expression),
            "for": row.duration,
            "labels": {"severity": str(row.severity), **labels},
            "annotations": {
                "summary": row.summary,
                "runbook_url": f"{monitoring.runbook_url}#{row.name.lower()}",
            },
        }
        for row in (*ALERTS, *backend.alerts)
        if row.of in has
    ]
    manifest = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": k.metadata(
            tier.remote_name,
            tier.remote_namespace,
            {**monitoring.pod_monitor_labels, **tier.labels},
        ),
        "spec": {"groups": [{"name": tier.remote_name, "rules": rules}]},
    }
    yield Part("prometheusrule", manifest)


def _has(parts: Sequence[Part]) -> Iterator[str]:
    """Yield what alerts may be of: kinds, components, containers and strategies of workloads."""
    for part in parts:
        spec = part.manifest.get("spec", {})
        if "template" not in spec:
            continue
        template = spec["template"]
        yield part.manifest["kind"]
        yield template["metadata"]["labels"]["app.kubernetes.io/component"]
        yield from (container["name"] for container in template["spec"]["containers"])
        yield spec.get("updateStrategy", {}).get("type", "")
