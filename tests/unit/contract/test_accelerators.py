"""The accelerator of a pod, and which connectors support it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.api.engines import ENGINES, SGLANG, VLLM
from function.contract.accelerators.claims import Claims
from function.contract.accelerators.detect import (
    DEVICE_CLASSES,
    NODE_LABELS,
    RESOURCES,
    of_pod,
)
from function.contract.accelerators.kinds import NAMES, Accelerator
from function.contract.accelerators.serving import Served, served
from kv_offload.docs.backend_rows import accelerator_rows

ACCELERATOR_ROWS = tuple(accelerator_rows())


def gpu(name, amount="1"):
    return {"resources": {"limits": {name: amount}}}


AFFINITY = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["H200"]}
                        ]
                    }
                ]
            }
        }
    }
}
VLLM_IMAGE = "vllm/vllm-openai:v0.33.0"
WHOLE = [
    ({}, gpu("nvidia.com/gpu", "8"), ("cuda", "", "resource nvidia.com/gpu")),
    ({}, {"resources": {"requests": {"amd.com/gpu": 4}}}, ("rocm", "", "resource amd.com/gpu")),
    ({}, gpu("nvidia.com/mig-3g.40gb"), ("cuda", "MIG", "resource nvidia.com/mig-3g.40gb")),
    ({}, gpu("nvidia.com/gpu.shared"),
     ("cuda", "time-slicing or MPS", "resource nvidia.com/gpu.shared")),
    ({}, {"resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}}},
     ("cuda", "vGPU", "resource nvidia.com/gpumem")),
    ({}, gpu("gpu.intel.com/i915"), ("xpu", "", "resource gpu.intel.com/i915")),
    ({}, gpu("gpu.intel.com/xe"), ("xpu", "", "resource gpu.intel.com/xe")),
    ({}, gpu("habana.ai/gaudi"), ("hpu", "", "resource habana.ai/gaudi")),
    ({}, gpu("aws.amazon.com/neuroncore"), ("neuron", "", "resource aws.amazon.com/neuroncore")),
    ({}, gpu("huawei.com/Ascend910B"), ("npu", "", "resource huawei.com/Ascend910B")),
    ({}, gpu("google.com/tpu"), ("tpu", "", "resource google.com/tpu")),
    ({}, gpu("nvidia.com/gpu", "0"), ("", "", "")),
    ({}, gpu("rdma/hca"), ("", "", "")),
    ({}, gpu("nvidia.com/hostdev"), ("", "", "")),
    ({}, gpu("nvidia.com/h100"), ("cuda", "", "resource nvidia.com/h100")),
    # A resource says more than an image: somebody may run their own build.
    ({}, {"image": "vllm/vllm-openai-xpu:v0.33.0", **gpu("amd.com/gpu")},
     ("rocm", "", "resource amd.com/gpu")),
    ({}, {"image": "intel/vllm:0.10.0-xpu"}, ("xpu", "", "image intel/vllm:0.10.0-xpu")),
    ({}, {"image": "corp/vllm-rocm:1"}, ("rocm", "", "image corp/vllm-rocm:1")),
    ({}, {"image": "vault.habana.ai/gaudi-docker/1.22.0/pytorch-installer-2.7.1:latest"},
     ("hpu", "", "image vault.habana.ai/gaudi-docker/1.22.0/pytorch-installer-2.7.1:latest")),
    ({}, {"image": "ghcr.io/llm-d/llm-d-hpu:v0.8.0"},
     ("hpu", "", "image ghcr.io/llm-d/llm-d-hpu:v0.8.0")),
    ({}, {"image": "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.11.0"},
     ("neuron", "", "image public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.11.0")),
    ({}, {"image": "quay.io/ascend/vllm-ascend:v0.23.0"},
     ("npu", "", "image quay.io/ascend/vllm-ascend:v0.23.0")),
    ({}, {"image": VLLM_IMAGE}, ("cuda", "", f"image {VLLM_IMAGE}")),
    ({}, {"image": "corp/mine:1"}, ("", "", "")),
    ({"nodeSelector": {"accelerator": "intel-xpu"}}, {},
     ("xpu", "", "node label accelerator=intel-xpu")),
    ({"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}}, {},
     ("cuda", "", "node label cloud.google.com/gke-accelerator")),
    ({"nodeSelector": {"cloud.google.com/gke-tpu-topology": "2x4"}}, {},
     ("tpu", "", "node label cloud.google.com/gke-tpu-topology")),
    (AFFINITY, {}, ("cuda", "", "node label nvidia.com/gpu.product")),
    # A slice is asked for as a whole GPU, where every GPU of the node is cut alike.
    *(
        ({"nodeSelector": {key: value}}, gpu("nvidia.com/gpu"),
         ("cuda", sharing, f"node label {key}={value}") if sharing else
         ("cuda", "", "resource nvidia.com/gpu"))
        for key, value, sharing in (
            ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", "MIG"),
            ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3-SHARED", "time-slicing or MPS"),
            ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3", ""),
            ("nvidia.com/mig.strategy", "single", "MIG"),
            ("nvidia.com/mig.strategy", "none", ""),
            ("nvidia.com/mig.config", "all-1g.10gb", "MIG"),
            ("nvidia.com/mig.config", "all-disabled", ""),
            ("nvidia.com/mig.capable", "true", ""),
            ("nvidia.com/gpu.sharing-strategy", "mps", "MPS"),
            ("cloud.google.com/gke-gpu-partition-size", "1g.5gb", "MIG"),
            ("cloud.google.com/gke-gpu-sharing-strategy", "time-sharing", "time-slicing"),
        )
    ),
    ({"nodeSelector": {"disk": "ssd"}}, {}, ("", "", "")),
    ({"nodeSelector": 5, "affinity": []}, {"resources": "x", "image": None}, ("", "", "")),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "container", "expected"), WHOLE)
def test_accelerator_of_a_pod(pod, container, expected):
    assert of_pod(pod, container) == Accelerator(*expected)


def template(name, *requests, namespace="default"):
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


POD = {
    "resourceClaims": [
        {"name": "gpus", "resourceClaimTemplateName": "chat-gpus"},
        {"name": "nics", "resourceClaimTemplateName": "chat-nics"},
        {"name": "own", "resourceClaimName": "by-hand"},
    ]
}


@pytest.mark.parametrize(
    ("templates", "claims", "expected"),
    [
        ([template("chat-gpus", {"exactly": {"deviceClassName": "gpu.amd.com"}})],
         ["gpus"], ("gpu.amd.com",)),
        # resource.k8s.io/v1beta1, and a choice.
        ([template("chat-gpus", {"deviceClassName": "gpu.nvidia.com"}),
          template("chat-nics", {"firstAvailable": [{"deviceClassName": "mrdma.google.com"},
                                                    {"deviceClassName": "dranet"}]})],
         ["nics", "gpus"], ("mrdma.google.com", "dranet", "gpu.nvidia.com")),
        # A container sees what it claims itself; another namespace's template is another.
        ([template("chat-gpus", {"deviceClassName": "gpu.amd.com"})], ["nics", "own"], ()),
        ([template("chat-gpus", {"deviceClassName": "gpu.amd.com"}, namespace="b")], ["gpus"], ()),
        ([{**template("chat-gpus", {"deviceClassName": "gpu.amd.com"}), "kind": "Secret"}],
         ["gpus"], ()),
        ([{"kind": "ResourceClaimTemplate", "metadata": 5, "spec": {"spec": []}},
          template("chat-gpus", 5, {"exactly": 5, "firstAvailable": 5, "deviceClassName": {}})],
         ["gpus"], ()),
    ],
)  # fmt: skip
def test_accelerator_of_resource_claims(templates, claims, expected):
    container = {"resources": {"claims": [{"name": name} for name in claims]}}
    assert Claims.among(templates).of_container("default", POD, container) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["gpu.nvidia.com"], ("cuda", "", "the device class gpu.nvidia.com")),
        (["mig.nvidia.com"], ("cuda", "MIG", "the device class mig.nvidia.com")),
        (["efa.networking.k8s.aws", "gpu.amd.com"], ("rocm", "", "the device class gpu.amd.com")),
        (["my-gpus"], ("", "", "")),
    ],
)
def test_device_classes(names, expected):
    assert of_pod({}, {"image": "vllm/vllm-openai-xpu:v0.33.0"}, names) == Accelerator(
        *(expected if expected[0] else ("xpu", "", "image vllm/vllm-openai-xpu:v0.33.0"))
    )


MP, STORE = "LMCacheMPConnector", "MooncakeStoreConnector"


@pytest.mark.parametrize(
    ("connector", "engine", "mode", "accelerator", "answer", "says"),
    [
        (MP, VLLM, "Isolated", Accelerator(), Served.YES, ""),
        (MP, VLLM, "Isolated", Accelerator("cuda", "", "x"), Served.YES, ""),
        (MP, VLLM, "Isolated", Accelerator("cuda", "MIG", "x"), Served.NO, "mode InProcess"),
        (MP, SGLANG, "SharedMemory", Accelerator("cuda", "MPS", "x"), Served.NO, "no context"),
        (MP, VLLM, "Isolated", Accelerator("cuda", "time-slicing", "x"), Served.UNPROVEN,
         "a part of a GPU"),
        (MP, VLLM, "Isolated", Accelerator("cuda", "time-slicing or MPS", "x"), Served.UNPROVEN,
         "a part of a GPU"),
        ("NixlConnector", VLLM, "", Accelerator("cuda", "MIG", "x"), Served.UNPROVEN, "by RDMA"),
        (MP, VLLM, "Isolated", Accelerator("rocm", "", "x"), Served.NO, "mode InProcess"),
        (MP, VLLM, "SharedMemory", Accelerator("rocm", "", "x"), Served.NO, "privileged"),
        (MP, SGLANG, "SharedMemory", Accelerator("xpu", "", "x"), Served.NO, "not known to work"),
        (MP, VLLM, "Isolated", Accelerator("hpu", "", "resource habana.ai/gaudi"), Served.NO,
         "LMCacheMPConnector is not made for a Gaudi (resource habana.ai/gaudi); this pod is left "
         "alone"),
        ("LMCacheConnectorV1", VLLM, "", Accelerator("rocm", "", "x"), Served.UNPROVEN, "do not"),
        (STORE, VLLM, "", Accelerator("cuda", "MIG", "x"), Served.YES, ""),
        (STORE, VLLM, "", Accelerator("npu", "", "x"), Served.NO, "an Ascend NPU"),
        ("OffloadingConnector", VLLM, "", Accelerator("xpu", "", "x"), Served.YES, ""),
        ("OffloadingConnector", VLLM, "", Accelerator("cpu", "", "x"), Served.NO, "a CPU"),
        ("HiCache/file", SGLANG, "", Accelerator("cpu", "", "x"), Served.NO, "no host pool"),
    ],
)  # fmt: skip
def test_connector_support_by_accelerator(connector, engine, mode, accelerator, answer, says):
    found, message = served(ACCELERATOR_ROWS, connector, engine, mode, accelerator)
    assert found is answer
    assert says in message and bool(message) is bool(says)


def test_rows_are_complete():
    for hint in (*RESOURCES, *DEVICE_CLASSES, *NODE_LABELS):
        assert hint.source and hint.accelerator in NAMES
    for row in ACCELERATOR_ROWS:
        assert row.source and row.engine in ENGINES and row.accelerator in NAMES
        assert (row.served is Served.YES) == (not row.message)
    keys = [(r.connector, r.engine, r.accelerator, r.mode, r.sharing) for r in ACCELERATOR_ROWS]
    assert len(keys) == len(set(keys))


json = st.recursive(
    st.none() | st.text(max_size=6) | st.integers(0, 3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "limits",
                    "nvidia.com/gpu",
                    "accelerator",
                    "nodeAffinity",
                    "matchExpressions",
                    "key",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(json, json, json, json)
def test_never_raises(selector, affinity, resources, image):
    pod = {"nodeSelector": selector, "affinity": affinity}
    found = of_pod(pod, {"resources": resources, "image": image})
    assert found.name in ("", *NAMES)
