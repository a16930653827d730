"""Who is scraped, as Prometheus reads the emitted PodMonitors, and what alerts ask for."""

from collections.abc import Iterable, Iterator, Mapping

from tests.conformance.manifests import Manifest
from tests.conformance.pod import Pod


def targets(manifests: Iterable[Manifest], pod: Pod, labels: Mapping[str, str]) -> Iterator[str]:
    """The URLs at which the PodMonitors have a pod of these labels scraped.

    A port, by name or number, is one that a container declares: others find no target.
    """
    for monitor in (m for m in manifests if m["kind"] == "PodMonitor"):
        if not _selects(monitor["spec"]["selector"], labels):
            continue
        declared = [port for c in pod.spec["containers"] for port in c.get("ports", ())]
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            for port in declared:
                number = port["containerPort"]
                if endpoint.get("port", port.get("name")) == port.get("name") and (
                    endpoint.get("portNumber", number) == number
                ):
                    yield f"http://{pod.address}:{number}{endpoint['path']}"


def _selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    if any(labels.get(name) != value for name, value in selector.get("matchLabels", {}).items()):
        return False
    return all(
        labels.get(row["key"]) in row["values"]
        for row in selector.get("matchExpressions", ())
        if row["operator"] == "In"
    )


def expressions(manifests: Iterable[Manifest]) -> dict[str, str]:
    """The expression of each alert."""
    found = [manifest for manifest in manifests if manifest["kind"] == "PrometheusRule"]
    rules = [rule for one in found for group in one["spec"]["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule["expr"] for rule in rules if "alert" in rule}
