"""Manifests of strangers: one round of following the messages to the letter wires them."""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from function import workloads
from function.problems import Refused
from function.workloads import kinds
from function.workloads.model import POD
from tests.corpus import judged

Json = dict[str, Any]

PREFIX = "modelplane.ai/kv-offload-"
SHAPES = [name for name in judged.SHAPES if name.startswith("strangers: ")]
# No change of the pods wires these to a node's agent: their scheduler is not where their ranks are.
SPREAD = (
    "strangers: a gang by the multi-node script, an old image and a limit on shared memory",
    "strangers: Ray Serve of one rank on Ray 2.60",
)


def bodies(manifest: Json) -> Iterator[tuple[Any, Json]]:
    found = workloads.find(manifest)
    for template in found.templates if found else ():
        if template.kind == POD:
            yield template, copy.deepcopy(dict(template.body))


def each(manifest: Json, mend: Callable[[Json, Json], None]) -> Json:
    """The manifest with each pod's first container mended: `mend(body, container)`."""
    for template, body in list(bodies(manifest)):
        mend(body, body["spec"]["containers"][0])
        manifest = workloads.replace(manifest, template, body)
    return manifest


def other_image(manifest: Json, image: str, tag: str) -> Json:
    return each(manifest, lambda _, container: container.update(image=f"{image}:{tag}"))


def newer(manifest: Json, version: str) -> Json:
    def mend(_: Json, container: Json) -> None:
        container["image"] = re.sub(r":v.*", f":v{version}.0", container["image"])

    return each(manifest, mend)


def more_shared_memory(manifest: Json, volume: str, size: str) -> Json:
    def mend(body: Json, _: Json) -> None:
        for held in body["spec"]["volumes"]:
            if held["name"] == volume:
                held["emptyDir"]["sizeLimit"] = size

    return each(manifest, mend)


def variable(manifest: Json, name: str) -> Json:
    def mend(_: Json, container: Json) -> None:
        container.setdefault("env", []).append({"name": name, "value": ""})

    return each(manifest, mend)


def declared(manifest: Json) -> Json:
    said = {"engine": "vLLM", "engine-version": "0.33.0"}
    said |= {"packages": "lmcache=0.5.6,mooncake=0.3.13"}

    def mend(body: Json, _: Json) -> None:
        body.setdefault("metadata", {})["annotations"] = {PREFIX + k: v for k, v in said.items()}

    return each(manifest, mend)


def own_image(manifest: Json, version: str, packages: str) -> Json:
    def mend(body: Json, container: Json) -> None:
        container["image"] = "registry.example.org/ml/own:1"
        said = {PREFIX + "engine-version": version, PREFIX + "packages": packages}
        body.setdefault("metadata", {}).setdefault("annotations", {}).update(said)

    return each(manifest, mend)


def own_container(manifest: Json) -> Json:
    container = {"name": "kserve-container", "image": "vllm/vllm-openai:v0.33.0"}
    container |= {"args": ["--model", "org/model"]}
    return {**manifest, "spec": {"predictor": {"containers": [container]}}}


# What a message says, and what a person then does.
MENDS: list[tuple[str, Callable[..., Json]]] = [
    (r"needs vLLM [\d.]+ to ([\d.]+)\.x, this engine is", newer),
    (r"Use an image that holds it \(([\w./-]+):v[\d.]+ to (v[\d.]+)", other_image),
    (r'Add \w+ to .*?engine-version and -packages, e\.g\. "([\d.]+)" and "([^"]+)"', own_image),
    (r"volumes\[(\w+)\]\.emptyDir\.sizeLimit: [^()]*raise it to (\w+)", more_shared_memory),
    (r'give (\w+) \(line \d+\) a value in the container\'s env[^;]*"" for no flags', variable),
    (r"annotate the pod template with modelplane.ai/kv-offload-engine, -engine-version", declared),
    (r"Write the engine under spec.predictor.containers", own_container),
]


def refusal(manifest: Json, plan: Any, siblings: Any) -> str:
    """What is said of a manifest that is not wired, "" where it is."""
    try:
        wired = judged.wired(manifest, plan, siblings)
    except Refused as refused:
        return str(refused)
    return "" if wired else kinds.elsewhere(manifest)


@pytest.mark.parametrize("tier", ["Native", "NodeServer", "Mooncake"])
@pytest.mark.parametrize("name", SHAPES)
def test_one_round_of_the_messages_wires_it(name: str, tier: str) -> None:
    shape, plan = judged.SHAPES[name], judged.planned(tier)
    manifest, siblings = copy.deepcopy(shape["workload"]), shape.get("siblings", ())
    message = refusal(manifest, plan, siblings)
    if name in SPREAD and tier == "NodeServer":
        assert "The engine spans 2 pods" in message
        return
    assert bool(message) == (shape["verdicts"][tier] != judged.WIRED)
    if "file of a ConfigMap" in message and "put $KV_OFFLOAD_ARGS (unquoted) there" in message:
        (script,) = siblings = copy.deepcopy(siblings)
        script["data"]["start.sh"] = script["data"]["start.sh"].rstrip() + " $KV_OFFLOAD_ARGS"
    for pattern, mend in MENDS:
        for found in dict.fromkeys(m.groups() for m in re.finditer(pattern, message)):
            manifest = mend(manifest, *found)
    assert refusal(manifest, plan, siblings) == ""


def test_there_are_six_of_them() -> None:
    assert len(SHAPES) == 6
