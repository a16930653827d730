"""On which accelerator an engine's pod runs, and how it is shared.

Read from what a pod asks for: extended resources, DRA claims, the image, the node selector. What
none of these tells is unknown, which is the normal case under DRA with opaque class names.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from function.contract.accelerators.kinds import (
    CUDA,
    HPU,
    MIG,
    MPS,
    NEURON,
    NPU,
    ROCM,
    SLICED_OR_MPS,
    TIME_SLICING,
    TPU,
    VGPU,
    XPU,
    Accelerator,
)
from function.contract.image_reference import ImageReference
from function.contract.stock_images import contents
from function.contract.stock_images.tags import read

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Hint:
    """`key`: a whole name, or a pattern (fullmatch) of resource names, device classes, label keys.

    `sharing`: what it says of sharing, "" for nothing.
    """

    key: str
    accelerator: str
    source: str
    sharing: str = ""
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the key; a newline is a character like others, or failing costs a square."""
        object.__setattr__(self, "pattern", re.compile(self.key, re.DOTALL))


RESOURCES: tuple[Hint, ...] = (
    Hint(r"nvidia\.com/mig-.+", CUDA, "NVIDIA's device plugin, MIG strategy mixed", MIG),
    Hint(r"nvidia\.com/gpu\.shared", CUDA, "NVIDIA's device plugin, renameByDefault",
         SLICED_OR_MPS),
    Hint(r"nvidia\.com/gpu", CUDA, "NVIDIA's device plugin"),
    Hint(r"nvidia\.com/(gpumem|gpumem-percentage|gpucores)", CUDA, "HAMi's device plugin", VGPU),
    Hint(r"nvidia\.com/(?!.*(hostdev|rdma|sriov|roce)).+", CUDA,
         "NVIDIA's device plugin, a resource of another name; not its network operator's"),
    Hint(r"amd\.com/gpu", ROCM, "AMD's device plugin"),
    Hint(r"gpu\.intel\.com/.+", XPU, "Intel's device plugin"),
    Hint(r"habana\.ai/gaudi", HPU, "Gaudi's device plugin"),
    Hint(r"aws\.amazon\.com/neuron.*", NEURON, "AWS Neuron's device plugin"),
    Hint(r"huawei\.com/ascend.*", NPU, "Ascend's device plugin"),
    Hint(r"google\.com/tpu", TPU, "GKE's TPU device plugin"),
)  # fmt: skip

DEVICE_CLASSES: tuple[Hint, ...] = (
    Hint(r"mig\.nvidia\.com", CUDA, "NVIDIA's DRA driver", MIG),
    Hint(r"(gpu|vfio\.gpu)\.nvidia\.com|.*\.nvidia\.com", CUDA, "NVIDIA's DRA driver"),
    Hint(r"gpu\.amd\.com", ROCM, "AMD's DRA driver"),
    Hint(r"gpu\.intel\.com", XPU, "Intel's DRA driver"),
    Hint(r"gaudi\.intel\.com", HPU, "Intel's DRA driver"),
    Hint(r"neuron\.aws\.com", NEURON, "AWS Neuron's DRA driver"),
    Hint(r"tpu\.google\.com", TPU, "GKE's TPU DRA driver"),
)

NODE_LABELS: tuple[Hint, ...] = (
    Hint(r"nvidia\.com/(gpu|cuda|mig)\..+", CUDA, "NVIDIA's GPU Feature Discovery"),
    Hint(r"cloud\.google\.com/gke-tpu-.+", TPU, "GKE's node labels"),
    Hint(r"cloud\.google\.com/gke-accelerator", CUDA, "GKE's node labels: GPUs of NVIDIA"),
    Hint(r"amd\.com/gpu.*|feature\.node\.kubernetes\.io/amd-gpu", ROCM, "AMD's node labeller"),
    Hint(r"(gpu\.)?intel\.(com|feature\.node\.kubernetes\.io)/gpu.*", XPU, "Intel's labels"),
    Hint(r"accelerator/huawei-npu|host-arch-npu", NPU, "Ascend's labels"),
)
_DISCOVERY = "NVIDIA's GPU Feature Discovery"
_GKE = "GKE's node labels"
# `key=value` of node labels, by a pattern: a shared GPU is asked for by the name of a whole one.
SHARED_NODES: tuple[Hint, ...] = (
    Hint(r"nvidia\.com/mig\.strategy=(single|mixed)", CUDA, _DISCOVERY, MIG),
    Hint(r"nvidia\.com/mig\.config=(?!all-disabled$).+", CUDA, "NVIDIA's MIG manager", MIG),
    Hint(r"nvidia\.com/mig-.+=.+", CUDA, _DISCOVERY, MIG),
    Hint(r"nvidia\.com/gpu\.product=.+-mig-.+", CUDA, _DISCOVERY, MIG),
    Hint(r"nvidia\.com/gpu\.product=.+-shared", CUDA, _DISCOVERY, SLICED_OR_MPS),
    Hint(r"nvidia\.com/gpu\.sharing-strategy=time-slicing", CUDA, _DISCOVERY, TIME_SLICING),
    Hint(r"nvidia\.com/gpu\.sharing-strategy=mps", CUDA, _DISCOVERY, MPS),
    Hint(r"cloud\.google\.com/gke-gpu-partition-size=.+", CUDA, _GKE, MIG),
    Hint(r"cloud\.google\.com/gke-gpu-sharing-strategy=time-sharing", CUDA, _GKE, TIME_SLICING),
    Hint(r"cloud\.google\.com/gke-gpu-sharing-strategy=mps", CUDA, _GKE, MPS),
)
# `accelerator: intel-xpu` and its like: charts write the vendor into the value.
_VALUES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(intel-)?xpu.*|intel-gpu.*"), XPU),
    (re.compile(r"(intel-)?gaudi.*|hpu"), HPU),
    (re.compile(r"amd.*|rocm|mi\d+x?"), ROCM),
    (re.compile(r"nvidia.*"), CUDA),
    (re.compile(r"(huawei-)?ascend.*|npu"), NPU),
    (re.compile(r"(google-)?tpu.*"), TPU),
    (re.compile(r"(aws-)?(neuron|inferentia|trainium).*"), NEURON),
)
_NAME = re.compile(r"(?:^|[-_.])(rocm|xpu|hpu|gaudi|neuron|neuronx|npu|ascend|tpu|cpu)(?=$|[-_.])")
# Habana names its images by their PyTorch: the path says what they are for.
_GAUDI = re.compile(r"(?:^|[-_./])(gaudi|habana)(?=$|[-_./])")
_SPELLED = {"gaudi": HPU, "habana": HPU, "neuronx": NEURON, "ascend": NPU}


def of_pod(pod: Json, container: Json, device_classes: Iterable[str] = ()) -> Accelerator:
    """The accelerator of an engine's container in a PodSpec.

    The first that tells decides: resources of the container, the DeviceClasses of its claims
    (`function.contract.accelerators.claims`), its image, the pod's node selector.
    """
    labels = _selector(pod)
    told = (
        _of_resources(container),
        _first(device_classes, DEVICE_CLASSES, "the device class"),
        _of_image(container),
        _of_labels(labels),
    )
    found = next((each for each in told if each.name), Accelerator())
    shared = _first(
        (f"{key}={value}" for key, values in labels.items() for value in values),
        SHARED_NODES,
        "node label",
    )
    is_more = shared.name and found.name in ("", shared.name) and not found.sharing
    return shared if is_more else found


def _of_resources(container: Json) -> Accelerator:
    resources = _mapping(container.get("resources"))
    asked = [
        str(name)
        for kind in ("limits", "requests")
        for name, amount in _mapping(resources.get(kind)).items()
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
    return Accelerator(name, "", f"image {image}") if name else Accelerator()


def _of_labels(labels: Mapping[str, Sequence[str]]) -> Accelerator:
    found = _first(labels, NODE_LABELS, "node label")
    if found.name:
        return found
    for key, values in labels.items():
        if key.rpartition("/")[2] in ("accelerator", "gpu", "gpu-vendor", "accelerator-type"):
            for value in values:
                for pattern, name in _VALUES:
                    if pattern.fullmatch(value.lower()):
                        return Accelerator(name, "", f"node label {key}={value}")
    return Accelerator()


def _selector(pod: Json) -> dict[str, list[str]]:
    """The node labels that the pod requires: {key: values}."""
    found = {str(k): [str(v)] for k, v in _mapping(pod.get("nodeSelector")).items()}
    affinity = _mapping(_mapping(pod.get("affinity")).get("nodeAffinity"))
    required = _mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    for term in _mappings(required.get("nodeSelectorTerms")):
        for one in _mappings(term.get("matchExpressions")):
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
    return Accelerator()


def _mapping(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Json]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []
