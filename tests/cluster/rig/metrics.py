"""Prometheus metrics, audit logs and CPU seconds of the rig's parts."""

import json
import os
from collections import Counter
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


def writers(log: Path, start: int = 0) -> Counter[tuple[str, str]]:
    """Count the writes of an audit log by (program, kind), from byte `start`.

    Leases, events and what was refused do not count.
    """
    found: Counter[tuple[str, str]] = Counter()
    with log.open("rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):  # it is being written
                break
            entry = json.loads(line)
            reference = entry.get("objectRef", {})
            kind = reference.get("resource", "")
            if kind in ("leases", "events", "") or entry.get("responseStatus", {})["code"] >= 400:
                continue
            part = reference.get("subresource")
            program = entry.get("userAgent", "").partition("/")[0]
            found[program, f"{kind}/{part}" if part else kind] += 1
    return found


def cpu_seconds(part: Part) -> float:
    """User and system time that a part has used since it started."""
    fields = Path(f"/proc/{part.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(part: Part) -> float:
    pages = int(Path(f"/proc/{part.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
