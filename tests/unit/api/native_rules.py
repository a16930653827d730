"""The rows of `test_rules` for `spec.native`."""

from typing import Any

FILES = {"sizeGiB": 1, "claim": {"name": "kv"}}
BUCKET = {"bucket": "kv", "endpoint": "https://s3.example.org", "region": "eu"}
PLACE = {"inferenceClusterRef": {"name": "a"}, "name": "a"}
RDMA = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}

CA = {"caConfigMap": {"name": "company-ca"}}

ROWS: list[tuple[str, str, list[Any], list[Any]]] = [
    (
        "NativeBucket",
        "caConfigMap needs an endpoint with https",
        [BUCKET, {**BUCKET, **CA}, {**BUCKET, "endpoint": "http://s3"}],
        [{**BUCKET, **CA, "endpoint": "http://s3"}],
    ),
    (
        "NativeCPU",
        "exactly one of sizeGiB and sizeGiBPerRank",
        [{"sizeGiB": 8}, {"sizeGiBPerRank": 8}],
        [{}, {"sizeGiB": 8, "sizeGiBPerRank": 8}],
    ),
    (
        "NativeClaim",
        "exactly one of name and storageClassName",
        [{"name": "kv"}, {"storageClassName": "rwx"}],
        [{}, {"name": "kv", "storageClassName": "rwx"}],
    ),
    (
        "NativeSpec",
        "cpu must be set unless simple.disk is set",
        [{"cpu": {"sizeGiB": 8}}, {"simple": {"disk": {"sizeGiBPerRank": 1}}}],
        [
            {},
            {"simple": {}},
            {"cpu": {"sizeGiB": 8}, "simple": {"disk": {"sizeGiBPerRank": 1}}},
        ],
    ),
    (
        "NativeSpec",
        "simple allows no secondary",
        [{"cpu": {"sizeGiB": 8}, "simple": {}}],
        [
            {"cpu": {"sizeGiB": 8}, "simple": {}, "blocksPerChunk": 16},
            {"cpu": {"sizeGiB": 8}, "simple": {}, "generated": True},
            {"cpu": {"sizeGiB": 8}, "simple": {}, "evictionPolicy": "ARC"},
            {
                "cpu": {"sizeGiB": 8},
                "simple": {},
                "secondary": [{"name": "a", "type": "Bucket", "bucket": BUCKET}],
            },
        ],
    ),
    (
        "NativeSpec",
        "storeThreshold may not be set with secondary or simple",
        [{"cpu": {"sizeGiB": 8}, "storeThreshold": 2}],
        [
            {"cpu": {"sizeGiB": 8}, "simple": {}, "storeThreshold": 2},
            {
                "cpu": {"sizeGiB": 8},
                "storeThreshold": 2,
                "secondary": [{"name": "a", "type": "Bucket", "bucket": BUCKET}],
            },
        ],
    ),
    *(
        ("NativeLevel", f"{field} {verb}", [{"name": "a", "type": kind, field: body}], [bad])
        for kind, field, body, other, other_field, other_body in (
            ("FileSystem", "fileSystem", FILES, "Bucket", "bucket", BUCKET),
            ("Bucket", "bucket", BUCKET, "FileSystem", "fileSystem", FILES),
            ("Peers", "peers", {}, "Bucket", "bucket", BUCKET),
        )
        for verb, bad in (
            ("must be set", {"name": "a", "type": kind}),
            ("may only", {"name": "a", "type": other, other_field: other_body, field: body}),
        )
    ),
    *(
        (
            model,
            f"{field} may not be set: {why}",
            [{**PLACE, "backend": "Native", "native": {"cpu": {"sizeGiB": 8}}}],
            [{**PLACE, "backend": "Native", "native": {"cpu": {"sizeGiB": 8}}, field: value}],
        )
        for model in ("KVOffloadTierSpec", "InlineTier")
        for field, why, value in (
            ("rdma", "Native", RDMA),
            ("gpuVisibility", "Native", {"source": "CDI"}),
        )
    ),
]
