"""What is wrong with a tier: by its schema, and by what only the backend knows."""

from typing import Any

import pytest

from function.backends.native import BACKEND
from tests.unit.backends.native import BUCKET, FILES, native, read

CPU = {"sizeGiB": 8}


def files(level: str, **claim: Any) -> dict[str, Any]:
    body = {"sizeGiB": 1, "claim": claim}
    return {"name": level, "type": "FileSystem", "fileSystem": body}


def bucket(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "Bucket", "bucket": BUCKET["bucket"] | more}


# (spec.native, paths of the problems)
SCHEMA: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({}, ["spec.native.cpu"]),
    ({"cpu": {}}, ["spec.native.cpu"]),
    ({"cpu": {"sizeGiB": "64Gi"}}, ["spec.native.cpu.sizeGiB"]),
    ({"cpu": {"sizeGiB": 0}}, ["spec.native.cpu.sizeGiB"]),
    ({"cpu": CPU, "evictionPolicy": "lru"}, ["spec.native.evictionPolicy"]),
    (
        {"cpu": CPU, "secondary": [bucket("a", endpoint="s3.example.org")]},
        ["spec.native.secondary[0].bucket.endpoint"],
    ),
    (
        {"cpu": CPU, "secondary": [files("a")]},
        ["spec.native.secondary[0].fileSystem.claim"],
    ),
    ({"cpu": CPU, "secondary": [FILES, FILES]}, ["spec.native.secondary[1]"]),
)


@pytest.mark.parametrize(("settings", "paths"), SCHEMA)
def test_schema_problems(settings: dict[str, Any], paths: list[str]) -> None:
    tier, problems = read({"native": settings})
    assert tier is None
    assert [problem.path for problem in problems] == paths


SECRET = {"credentialsSecret": {"name": "s3"}}
# (levels, what is said)
KNOWN: tuple[tuple[list[dict[str, Any]], list[str]], ...] = (
    ([], []),
    ([FILES, BUCKET], []),
    ([files("a", name="one"), files("b", name="two")], []),
    ([bucket("a", **SECRET), bucket("b", **SECRET)], []),
    (
        [files("a", name="kv"), files("b", name="kv")],
        [
            "spec.native.secondary[1].fileSystem.claim: is the volume of "
            "spec.native.secondary[0]: give each level its own"
        ],
    ),
    (
        [files("a", name="kv"), files("b", name="kv", namespace="team-b")],
        [
            "spec.native.secondary: has claims of several namespaces, which one pod cannot "
            "mount: give each namespace its own tier",
            "spec.native.secondary[1].fileSystem.claim.namespace: team-b is not admitted by "
            "spec.allowedNamespaces: add it there (from: Names), or name a namespace of engines "
            "that the tier serves",
        ],
    ),
    (
        [bucket("a", **SECRET), bucket("b")],
        [
            "spec.native.secondary[1].bucket.credentialsSecret: must equal that of "
            "spec.native.secondary[0]: a pod has one access key"
        ],
    ),
)


@pytest.mark.parametrize(("levels", "said"), KNOWN)
def test_backend_problems(levels: list[dict[str, Any]], said: list[str]) -> None:
    assert [str(problem) for problem in BACKEND.problems(native(*levels))] == said


def test_file_locations_are_pinned() -> None:
    """Whatever is taken away, added or moved: engines that run write where they did."""
    values = {
        BACKEND.pinned(native(*levels))[0].value for levels in ([], [FILES], [files("f", name="x")])
    }
    assert len(values) == 3
    assert BACKEND.pinned(native(BUCKET)) == BACKEND.pinned(native())
