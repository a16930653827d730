"""Selection of the engine container."""

import pytest

from function.problems import Refused
from function.workloads.containers import find_engine_container


def spec(*names, **images):
    return {
        "containers": [{"name": n, "image": images.get(n.replace("-", "_"), "x")} for n in names]
    }


def proves(*names):
    return lambda container: container["name"] in names


CHOSEN = {
    "the only one": (spec("anything"), "", (), 0),
    "the input's name wins over proof": (spec("a", "b"), "a", ("b",), 0),
    "an input's name that is not here is passed over": (spec("main"), "engine", (), 0),
    "the named one": (spec("log", "engine"), "", (), 1),
    "proof wins over a name": (spec("main", "backend"), "", ("backend",), 1),
    "a name among the proven": (spec("engine", "other"), "", ("engine", "other"), 0),
    "the more telling name": (spec("server", "main"), "", (), 1),
    "a sidecar's name is never chosen": (spec("routing-proxy", "x"), "", ("routing-proxy",), 1),
    "a sidecar's image is never chosen": (
        spec("main", "x", main="ghcr.io/llm-d/llm-d-routing-sidecar:v0.4.0"),
        "",
        (),
        1,
    ),
    "KServe": (spec("istio-proxy", "kserve-container"), "", (), 1),
    "KubeRay": (spec("ray-worker", "fluent-bit"), "", (), 0),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_engine_container_is_found(name):
    pod, given, proven, index = CHOSEN[name]
    assert find_engine_container(pod, name=given, proves=proves(*proven)) == index


REFUSED = {
    "two that could be": (spec("a", "b"), ()),
    "two that prove it": (spec("a", "b", "engine"), ("a", "b")),
    "only sidecars": (spec("envoy"), ()),
    "none": ({}, ()),
    "rubbish": ({"containers": ["engine"]}, ()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    pod, proven = REFUSED[name]
    with pytest.raises(Refused) as refused:
        find_engine_container(pod, proves=proves(*proven))
    assert refused.value.reason == "EngineContainerMissing"
    assert "Name the engine's container" in refused.value.message
