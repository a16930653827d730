"""Accelerators by name, and the ways of sharing one between containers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

CUDA = "cuda"
ROCM = "rocm"
XPU = "xpu"
HPU = "hpu"
NEURON = "neuron"
NPU = "npu"
TPU = "tpu"
CPU = "cpu"
NAMES: Mapping[str, str] = {
    CUDA: "an NVIDIA GPU",
    ROCM: "an AMD GPU",
    XPU: "an Intel GPU",
    HPU: "a Gaudi",
    NEURON: "an AWS Neuron device",
    NPU: "an Ascend NPU",
    TPU: "a Google TPU",
    CPU: "a CPU",
}

# How one device is shared between containers.
MIG = "MIG"
TIME_SLICING = "time-slicing"
MPS = "MPS"
VGPU = "vGPU"
# What NVIDIA's device plugin calls `gpu.shared` is the one or the other.
SLICED_OR_MPS = f"{TIME_SLICING} or {MPS}"


@dataclass(frozen=True)
class Accelerator:
    """The accelerator of a pod.

    `name`: of `NAMES`, "" for unknown. `sharing`: MIG, time-slicing or MPS, vGPU, "" for a whole
    device or for unknown. `because`: what shows it, for people.
    """

    name: str = ""
    sharing: str = ""
    because: str = ""


NOT_SHOWN = Accelerator()


@dataclass(frozen=True)
class Hint:
    """`key`: a whole name, or a pattern (fullmatch) of one. `sharing`: "" where it shows none."""

    key: str
    accelerator: str
    source: str
    sharing: str = ""
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the key; a newline is a character like others, or failing costs a square."""
        object.__setattr__(self, "pattern", re.compile(self.key, re.DOTALL))
