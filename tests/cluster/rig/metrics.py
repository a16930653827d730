"""Prometheus metrics and CPU seconds of the rig's parts."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.rig.kube import Api
from tests.cluster.rig.processes import Part

_TICKS = os.sysconf("SC_CLK_TCK")


def scrape(port: int) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of every sample of a local metrics endpoint."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10, trust_env=False).text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def writes(api: Api) -> int:
    """Writes that an API server has answered, but for leases and events."""
    text = api.metrics()
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(text)
        if family.name == "apiserver_request"
        for sample in family.samples
        if sample.labels.get("verb") in ("POST", "PUT", "PATCH", "APPLY", "DELETE")
        and sample.labels.get("resource") not in ("leases", "events", "tokenreviews")
    )


def cpu_seconds(part: Part) -> float:
    """User and system time that a part has used since it started."""
    fields = Path(f"/proc/{part.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(part: Part) -> float:
    pages = int(Path(f"/proc/{part.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
