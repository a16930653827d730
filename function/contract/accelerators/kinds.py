"""Accelerators by name, and the ways of sharing one between containers."""

from collections.abc import Mapping
from dataclasses import dataclass

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
    """`name`: of `NAMES`, "" for unknown. `sharing`: MIG, time-slicing or MPS, vGPU, "" for a whole
    device or for unknown. `because`: what said so, for people."""

    name: str = ""
    sharing: str = ""
    because: str = ""
