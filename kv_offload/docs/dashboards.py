"""The Grafana dashboards of package/dashboards, out of dashboards.yaml."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

FOLDER = "package/dashboards"
_TAG = "kv-offload"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT = 24, {"stat": 4, "timeseries": 8}
_WIDTH = {"stat": 6, "timeseries": 12}


def declared() -> dict[str, Json]:
    """Return the dashboards as dashboards.yaml has them, by name."""
    found: dict[str, Json] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return found


def files() -> dict[str, str]:
    """Return every dashboard: path -> JSON."""
    return {
        f"{FOLDER}/{name}.json": json.dumps(_dashboard(name, row), indent=1) + "\n"
        for name, row in declared().items()
    }


def _dashboard(name: str, row: Json) -> Json:
    variables = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        *(_variable(*each) for each in row.get("variables", {}).items()),
    ]
    link = {"title": "KV offload", "type": "dashboards", "tags": [_TAG], "asDropdown": True}
    return {
        "uid": f"{_TAG}-{name}",
        "title": row["title"],
        "description": row["text"],
        "tags": [_TAG],
        "schemaVersion": 39,
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "links": [{**link, "includeVars": True, "keepTime": True}],
        "templating": {"list": variables},
        "panels": list(_panels(row["panels"])),
    }


def _variable(name: str, query: str) -> Json:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
    }


def _panels(rows: list[Json]) -> Iterator[Json]:
    """Yield the panels from left to right, in rows of equal height."""
    x = y = height = 0
    for number, row in enumerate(rows, 1):
        kind = row.get("kind", "timeseries")
        width = row.get("width", _WIDTH[kind])
        if x + width > _COLUMNS:
            x, y = 0, y + height
        height = _HEIGHT[kind]
        yield {
            "id": number,
            "type": kind,
            "title": row["title"],
            "datasource": _SOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "fieldConfig": {"defaults": _defaults(kind, row.get("unit", "short")), "overrides": []},
            "options": _options(kind),
            "targets": list(_targets(row["queries"])),
        }
        x += width


def _targets(queries: Mapping[str, str]) -> Iterator[Json]:
    for letter, (legend, query) in zip("ABCDEFGH", queries.items(), strict=False):
        yield {"refId": letter, "datasource": _SOURCE, "expr": query, "legendFormat": legend}


def _defaults(kind: str, unit: str) -> Json:
    shown: Json = {"unit": unit, "min": 0}
    if unit == "percentunit" and kind == "timeseries":
        shown["max"] = 1
    if kind == "timeseries":
        shown["custom"] = {"lineWidth": 2, "fillOpacity": 8, "showPoints": "never"}
    return shown


def _options(kind: str) -> Json:
    if kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none"}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
