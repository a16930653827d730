"""The rows of `test_rules` for `spec.nixl`."""

from typing import Any

PLACE = {"inferenceClusterRef": {"name": "a"}, "name": "a"}
TIER: dict[str, Any] = {**PLACE, "backend": "NIXL", "nixl": {}}
PORTS = {"first": 20000, "count": 512}

BUCKET = {"name": "kv-blocks", "endpoint": "https://s3.example.org"}
CA = {"caConfigMap": {"name": "company-ca"}}

ROWS: list[tuple[str, str, list[Any], list[Any]]] = [
    (
        "NIXLBucket",
        "caConfigMap needs an endpoint with https",
        [BUCKET, {**BUCKET, **CA}, {**BUCKET, "endpoint": "http://s3"}],
        [{**BUCKET, **CA, "endpoint": "http://s3"}],
    ),
    (
        "NIXLPorts",
        "first and count must stay below port 65536",
        [PORTS, {"first": 65000, "count": 536}],
        [{"first": 65000, "count": 537}],
    ),
    *(
        (
            "NIXLSpec",
            f"{field} must not be one of ports",
            [{}, {field: 19999}, {field: 20512}, {"ports": {"first": 30000}, field: 20000}],
            [{field: 20000}, {field: 20511}, {"ports": {"first": 5500, "count": 64}, field: 5563}],
        )
        for field in ("sideChannelPort", "bootstrapPort")
    ),
    (
        "NIXLSpec",
        "telemetry.port must not be one of ports",
        [{}, {"telemetry": {}}, {"telemetry": {"port": 20512}}],
        [{"telemetry": {"port": 20000}}, {"telemetry": {"port": 20511}}],
    ),
    *(
        row
        for model in ("KVOffloadTierSpec", "InlineTier")
        for row in (
            (model, "nixl must be set when backend", [TIER], [{**PLACE, "backend": "NIXL"}]),
            (
                model,
                "nixl may only be set when backend",
                [TIER],
                [{**TIER, "backend": "Native", "native": {"cpu": {"sizeGiB": 8}}}],
            ),
            (
                model,
                "payload may not be set: the payload image holds no nixl",
                [TIER],
                [{**TIER, "payload": {"repository": "team/payload", "tag": "v1"}}],
            ),
            (
                model,
                "gpuVisibility may not be set: NIXL",
                [TIER],
                [{**TIER, "gpuVisibility": {"source": "CDI"}}],
            ),
            (
                model,
                "nodes may not be set: without nixl.preflight",
                [
                    TIER,
                    {**TIER, "nodes": {"selector": {}}},
                    {**TIER, "nodes": {"selector": {"a": "b"}}, "nixl": {"preflight": {}}},
                ],
                [
                    {**TIER, "nodes": {"selector": {"a": "b"}}},
                    {**TIER, "nodes": {"tolerations": []}},
                    {**TIER, "nodes": {"priorityClassName": "high"}},
                ],
            ),
            (
                model,
                "monitoring may not be set: NIXL",
                [TIER, {**TIER, "monitoring": {"podMonitor": True, "enginePorts": [8000]}}],
                [{**TIER, "monitoring": {}}, {**TIER, "monitoring": {"podMonitor": True}}],
            ),
        )
    ),
]
