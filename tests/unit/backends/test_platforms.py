"""Platforms: the table is whole, and the smallest tier fits each or says what is missing."""

from typing import Any, get_args

import pytest

from function.api.placement import GPUVisibility, Nodes
from function.contract import platforms
from function.contract.platforms import PLATFORMS, Platform
from tests.unit.backends.lmcache import agents_pod

L1 = {"l1": {"sizeGiB": 100}}


def taints(platform: Platform) -> list[tuple[str, str, str]]:
    """(key, value, effect) of each."""
    found = []
    for text in platform.taints:
        key, _, effect = text.partition(":")
        key, _, value = key.partition("=")
        found.append((key, value, effect))
    return found


def tolerates(toleration: dict[str, Any], taint: tuple[str, str, str]) -> bool:
    """As the scheduler has it."""
    key, value, effect = taint
    if toleration.get("effect", effect) != effect or toleration.get("key", key) != key:
        return False
    return toleration["operator"] == "Exists" or toleration.get("value", "") == value


def test_rows_are_whole() -> None:
    known = get_args(GPUVisibility.model_fields["source"].annotation)
    for platform in PLATFORMS:
        assert platform.sources and set(platform.sources) <= set(known), platform.name
        assert platform.needs.endswith(".") and platform.source, platform.name
        assert platform.runtime_class == ("RuntimeClass" in platform.sources[:1]), platform.name
        assert all("=" in label for label in platform.labels), platform.name
    used = {source for platform in PLATFORMS for source in platform.sources}
    assert used | {"None"} == set(known)


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_agent_tolerates_the_taints_of_each_platform(platform: Platform) -> None:
    """With the row's own label and source, and nothing said of taints."""
    label = (platform.labels or ("own=",))[0]
    key, _, value = label.partition("=")
    source: dict[str, Any] = {"source": platform.sources[0]}
    if platform.sources[0] == "RuntimeClass":
        source["runtimeClass"] = {"name": "nvidia"}
    spec = {"lmcache": L1, "nodes": {"selector": {key: value or "h200"}}, "gpuVisibility": source}
    pod = agents_pod(spec)
    for taint in taints(platform):
        assert any(tolerates(t, taint) for t in pod["tolerations"]), taint
    assert ("runtimeClassName" in pod) == platform.runtime_class


# spec.nodes.tolerations -> those of the agents' pods
TOLERATIONS = (
    (None, ["nvidia.com/gpu", "sku", "is_gpu"]),
    ([], None),
    ([{"key": "own", "operator": "Exists"}], ["own"]),
)


@pytest.mark.parametrize(("said", "keys"), TOLERATIONS)
def test_tolerations_of_the_user_replace_the_defaults(said: Any, keys: Any) -> None:
    nodes = {} if said is None else {"tolerations": said}
    pod = agents_pod({"lmcache": L1, "nodes": nodes})
    found = pod.get("tolerations")
    assert (found and [t["key"] for t in found]) == keys


def test_unknown_sku_taint_is_not_tolerated() -> None:
    found = [t.dump() for t in platforms.tolerations(Nodes())]
    assert not any(tolerates(t, ("sku", "highmem", "NoSchedule")) for t in found)
