"""Which accelerator an engine's pod runs on, and how it is shared.

It shows in the pod's extended resources, DRA claims, image and node selector, by the rows of
function/facts/accelerators.yaml. Otherwise it is unknown, the normal case under DRA with opaque
class names.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from function.contract.accelerators.kinds import HPU, NEURON, NOT_SHOWN, NPU, Accelerator, Hint
from function.contract.image_reference import ImageReference
from function.contract.stock_images import contents
from function.contract.stock_images.tags import read
from function.facts import Table
from function.kube import access

Json = Mapping[str, Any]


RESOURCES = Table(Hint, "accelerators", "resources")
DEVICE_CLASSES = Table(Hint, "accelerators", "device_classes")
NODE_LABELS = Table(Hint, "accelerators", "node_labels")
# `key=value` of node labels: a shared GPU is requested by the name of a whole one.
SHARED_NODES = Table(Hint, "accelerators", "shared")
# `accelerator: intel-xpu` and the like: charts write the vendor into the value.
LABEL_VALUES = Table(Hint, "accelerators", "label_values")
# `key=value` of node labels.
ARM64 = Table(Hint, "accelerators", "arm64")
_ARM64_TAG = re.compile(r"(?:^|[-_.])(?:arm64|aarch64)(?=$|[-_.])")
_NAME = re.compile(r"(?:^|[-_.])(rocm|xpu|hpu|gaudi|neuron|neuronx|npu|ascend|tpu|cpu)(?=$|[-_.])")
# Habana names its images by their PyTorch: the path says what they are for.
_GAUDI = re.compile(r"(?:^|[-_./])(gaudi|habana)(?=$|[-_./])")
_REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_SPELLED = {"gaudi": HPU, "habana": HPU, "neuronx": NEURON, "ascend": NPU}


def of_pod(pod: Json, container: Json, device_classes: Iterable[str] = ()) -> Accelerator:
    """Return the accelerator of an engine's container in a PodSpec.

    The first that tells decides: what only a Gaudi has (charts keep the resource name of their
    template), resources of the container, the DeviceClasses of its claims
    (`function.contract.accelerators.claims`), its image, the pod's node selector.
    """
    labels = _selector(pod)
    told = (
        _of_gaudi(pod, container),
        _of_resources(container),
        _first(device_classes, DEVICE_CLASSES, "the device class"),
        _of_image(container),
        _of_labels(labels),
    )
    found = next((each for each in told if each.name), NOT_SHOWN)
    shared = _first(
        (f"{key}={value}" for key, values in labels.items() for value in values),
        SHARED_NODES,
        "node label",
    )
    is_more = shared.name and found.name in ("", shared.name) and not found.sharing
    return shared if is_more else found


def is_arm64(pod: Json, container: Json) -> str:
    """Return what shows that a pod runs on arm64, "" where nothing does."""
    tag = ImageReference.parse(str(container.get("image") or "")).tag or ""
    if _ARM64_TAG.search(tag):
        return f"image tag {tag}"
    labels = (f"{key}={value}" for key, values in _selector(pod).items() for value in values)
    shown = (label for label in labels if any(h.pattern.fullmatch(label.lower()) for h in ARM64))
    return next((f"node label {label}" for label in shown), "")


def _of_gaudi(pod: Json, container: Json) -> Accelerator:
    """Return a Gaudi that the image, the RuntimeClass or a variable of the container shows."""
    if pod.get("runtimeClassName") == "habana":
        return Accelerator(HPU, "", "runtimeClassName habana")
    for variable in access.objects(container, "env"):
        if str(variable.get("name")).startswith("HABANA_"):
            return Accelerator(HPU, "", f"env {variable['name']}")
    by_image = _of_image(container)
    return by_image if by_image.name == HPU else NOT_SHOWN


def _of_resources(container: Json) -> Accelerator:
    asked = [
        str(name)
        for kind in ("limits", "requests")
        for name, amount in access.mapping(container, "resources", kind).items()
        if str(amount) not in ("0", "")
    ]
    # HAMi asks for a part of a GPU beside the GPU.
    shared = _first((n for n in asked if "gpumem" in n or "gpucores" in n), RESOURCES, "resource")
    return shared if shared.name else _first(asked, RESOURCES, "resource")


def _of_image(container: Json) -> Accelerator:
    image = str(container.get("image") or "")
    reference = ImageReference.parse(image)
    tag = read(reference.tag, whole_version=False).accelerator if reference.tag else ""
    named = _NAME.search(reference.name) or _GAUDI.search(reference.repository)
    name = tag or (_SPELLED.get(named[1], named[1]) if named else "")
    if not name and (known := contents(image)):
        name = known.accelerator
    return Accelerator(name, "", f"image {image}") if name else NOT_SHOWN


def _of_labels(labels: Mapping[str, Sequence[str]]) -> Accelerator:
    found = _first(labels, NODE_LABELS, "node label")
    if found.name:
        return found
    for key, values in labels.items():
        if key.rpartition("/")[2] in ("accelerator", "gpu", "gpu-vendor", "accelerator-type"):
            for value in values:
                for hint in LABEL_VALUES:
                    if hint.pattern.fullmatch(value.lower()):
                        return Accelerator(hint.accelerator, "", f"node label {key}={value}")
    return NOT_SHOWN


def _selector(pod: Json) -> dict[str, list[str]]:
    """Return the node labels that the pod requires: {key: values}."""
    found = {str(k): [str(v)] for k, v in access.mapping(pod, "nodeSelector").items()}
    for term in access.objects(pod, *_REQUIRED, "nodeSelectorTerms"):
        for one in access.objects(term, "matchExpressions"):
            if one.get("operator") in ("In", "Exists"):
                values = one.get("values")
                found.setdefault(str(one.get("key")), []).extend(
                    str(v) for v in (values if isinstance(values, list) else ())
                )
    return found


def _first(names: Iterable[str], hints: Sequence[Hint], what: str) -> Accelerator:
    for name in names:
        for hint in hints:
            if hint.pattern.fullmatch(name.lower()):
                return Accelerator(hint.accelerator, hint.sharing, f"{what} {name}")
    return NOT_SHOWN
