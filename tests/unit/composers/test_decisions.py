"""Decisions by image, model and accelerator: whole pods in, decisions out."""

import json
import re
from typing import Any

import pytest

from function.contract.versions import known_versions
from function.names import ANNOTATION_RECORD
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

KEY = "serving-workload"
NEWEST = known_versions("vLLM")[-1]
TIER = {"modelplane.ai/kv-offload-tier": "chat"}
PACKAGES = "modelplane.ai/kv-offload-packages"
FAMILY = "modelplane.ai/kv-offload-model-family"
DENSE = "Qwen/Qwen3-32B"

SHARED: dict[str, Any] = {"lmcache": {"ipc": "SharedMemory", "l1": {"sizeGiB": 10}}}
OLDER: dict[str, Any] = {**SHARED, "image": {"tag": "v0.5.4"}}
INSIDE: dict[str, Any] = {"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 20}}}
POOL: dict[str, Any] = {
    "backend": "Mooncake",
    "lmcache": None,
    "mooncake": {"protocol": "tcp", "store": {"sizeGiB": 10}},
}
NATIVE: dict[str, Any] = {
    "backend": "Native",
    "lmcache": None,
    "native": {"cpu": {"sizeGiB": 10}},
}
SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", DENSE]
WIRED, MISMATCH, OUT = "Wired", "VersionMismatch", "OutOfScope"

# name: (tier, image, arguments, annotations, what the pod has beside, reason, what is said)
DECISIONS: dict[str, tuple[dict[str, Any], str, list[str], Any, Any, str, tuple[str, ...]]] = {
    "newest, default tier": ({}, "vllm/vllm-openai:v0.33.0", [DENSE], {}, {}, WIRED, ()),
    "nothing tells the version": (
        NATIVE, "vllm/vllm-openai@sha256:" + "0" * 64, [DENSE], {}, {}, WIRED,
        ("vLLM of unknown version (engine by the image's name; taken for 0.20.0 or newer)",),
    ),
    "0.5.5 on the default tier": (
        {}, "vllm/vllm-openai:v0.30.0", [DENSE], {}, {}, WIRED,
        ("LMCache 5168", "Restart them after it"),
    ),
    "0.5.4 on the default tier": (
        {}, "vllm/vllm-openai:v0.29.0", [DENSE], {}, {}, MISMATCH,
        ("Image vllm/vllm-openai:v0.29.0 holds lmcache 0.5.4 (derived, docs/images.md). The "
         "tier's agent (lmcache 0.5.6) needs lmcache 0.5.5 to 0.5.x: every lookup of an older one "
         f"misses. Use an image that holds it (vllm/vllm-openai:v0.30.0 to v{NEWEST}, "
         "lmcache/vllm-openai:v0.5.5 to v0.5.6); or a tier with spec.payload (docs/payload.md); "
         "or a tier with spec.lmcache.ipc SharedMemory and "
         "spec.image.tag v0.5.4",),
    ),
    "the commonest image": (
        {}, "vllm/vllm-openai:v0.23.0", [DENSE], {}, {}, MISMATCH,
        ("lmcache 0.4.6 or 0.4.7", "or a tier with spec.lmcache.mode InProcess"),
    ),
    "SGLang on a GPU, inside the engine": (
        INSIDE, "lmsysorg/sglang:v0.5.23", SGLANG, {}, {"nvidia.com/gpu": "1"},
        "EngineUnsupported",
        ("SGLang has no connector for LMCache inside the engine", "or of backend HiCache"),
    ),
    "a hybrid model on an engine of unknown version": (
        NATIVE, "vllm/vllm-openai:nightly", ["Qwen/Qwen3.6-27B"], {}, {}, "EngineUnsupported",
        ("use vLLM 0.21 or newer; which version of vLLM this is cannot be seen",
         "declare it by the annotation modelplane.ai/kv-offload-engine-version"),
    ),
    "the commonest image, inside the engine": (
        INSIDE, "vllm/vllm-openai:v0.23.0", [DENSE], {}, {}, WIRED, ("deprecated upstream",),
    ),
    "0.5.4 on a tier of its own": (
        OLDER, "vllm/vllm-openai:v0.29.0", [DENSE], {}, {}, WIRED, ("KVO-2026-015",),
    ),
    "0.5.6 on an older tier": (
        OLDER, "vllm/vllm-openai:v0.33.0", [DENSE], {}, {}, MISMATCH,
        ("this pair is untested",),
    ),
    "CUDA 12": (
        {}, "vllm/vllm-openai:v0.32.0-cu129", [DENSE], {}, {}, MISMATCH, ("holds lmcache 0.4.4",),
    ),
    "a tag that moves": (
        {}, "vllm/vllm-openai:latest", [DENSE], {}, {}, MISMATCH,
        ("Unknown vLLM and lmcache versions in image vllm/vllm-openai:latest (moving tag)",
         "pin the image's tag to one of these, or annotate "
         f'modelplane.ai/kv-offload-engine-version, e.g. "{NEWEST}"'),
    ),
    "one's own build": (
        {}, "corp/vllm-openai:v0.33.0", [DENSE], {}, {}, MISMATCH,
        ("Unknown lmcache version", PACKAGES),
    ),
    "one's own build, declared": (
        {}, "corp/vllm-openai:v0.33.0", [DENSE], {PACKAGES: "lmcache=0.5.6"}, {}, WIRED, (),
    ),
    "declared not to be there": (
        {}, "vllm/vllm-openai:v0.33.0", [DENSE], {PACKAGES: "lmcache=none"}, {}, MISMATCH,
        ("holds no lmcache (annotation)",),
    ),
    "a mirror of the stock image": (
        {}, "corp.example/mirror/vllm/vllm-openai:v0.33.0", [DENSE], {}, {}, WIRED, (),
    ),
    "LMCache's image": ({}, "lmcache/vllm-openai:v0.5.6", [DENSE], {}, {}, WIRED, ()),
    "NVIDIA's image": (
        {}, "nvcr.io/nvidia/vllm:26.10-py3", ["vllm", "serve", DENSE], {}, {}, MISMATCH,
        ("Unknown lmcache version",),
    ),
    "the pool's line": (POOL, "vllm/vllm-openai:v0.33.0", [DENSE], {}, {}, WIRED, ()),
    "another line of Mooncake": (
        POOL, "vllm/vllm-openai:v0.27.1", [DENSE], {}, {}, MISMATCH,
        ("holds mooncake 0.3.10.post2 (docs/images.md)", "every write fails",
         f"vllm/vllm-openai:v0.29.0 to v{NEWEST}"),
    ),
    "either of two lines": (
        POOL, "vllm/vllm-openai:v0.28.0", [DENSE], {}, {}, MISMATCH,
        ("mooncake 0.3.12.post1 or 0.3.13",),
    ),
    "SGLang's image has no LMCache": (
        SHARED, "lmsysorg/sglang:v0.5.23", SGLANG, {}, {}, MISMATCH,
        ("holds no lmcache (docs/images.md)", "lmcache/sglang:v0.5.6"),
    ),
    "SGLang, the pool": (POOL, "lmsysorg/sglang:v0.5.23", SGLANG, {}, {}, WIRED, ()),
    "SGLang, an older pool": (
        POOL, "lmsysorg/sglang:v0.5.16", SGLANG, {}, {}, MISMATCH, ("mooncake 0.3.11.post1",),
    ),
    # Models
    "a hybrid on an agent": (
        {}, "vllm/vllm-openai:v0.33.0", ["Qwen/Qwen3-Next-80B-A3B-Instruct"], {}, {},
        "EngineUnsupported", ("hybrid, by the model's name", "LMCache 4247"),
    ),
    "a hybrid by its flags": (
        {}, "vllm/vllm-openai:v0.33.0", ["/mnt/models", "--mamba-cache-mode", "align"], {}, {},
        "EngineUnsupported", ("hybrid, by --mamba-cache-mode",),
    ),
    "a hybrid, declared": (
        {}, "vllm/vllm-openai:v0.33.0", ["/mnt/models"], {FAMILY: "hybrid"}, {},
        "EngineUnsupported", ("hybrid, by declared",),
    ),
    "a hybrid inside the engine": (
        INSIDE, "vllm/vllm-openai:v0.33.0", ["Qwen/Qwen3.6-27B"], {}, {}, "EngineUnsupported",
        ("fails at start",),
    ),
    "a hybrid in the pool": (
        POOL, "vllm/vllm-openai:v0.33.0", ["Qwen/Qwen3.6-27B"], {}, {}, WIRED,
        ("vllm 56972",),
    ),
    "nothing tells what the model is": (
        {}, "vllm/vllm-openai:v0.33.0", ["/mnt/models"], {}, {}, WIRED, (FAMILY,),
    ),
    "declared dense": (
        {}, "vllm/vllm-openai:v0.33.0", ["/mnt/models"], {FAMILY: "dense"}, {}, WIRED, (),
    ),
    # Accelerators
    "ROCm, by the resource": (
        {}, "vllm/vllm-openai:v0.33.0", [DENSE], {}, {"amd.com/gpu": 1}, OUT,
        ("an AMD GPU (resource amd.com/gpu)", "isolated IPC for NVIDIA alone"),
    ),
    "XPU, by the image": (
        {}, "intel/vllm:0.17.0-xpu", ["vllm", "serve", DENSE], {}, {}, OUT, ("an Intel GPU",),
    ),
    "Gaudi": (
        {}, "vllm/vllm-openai:v0.33.0", [DENSE], {}, {"habana.ai/gaudi": 1}, OUT, ("a Gaudi",),
    ),
    "Gaudi, vLLM's own offloading": (
        NATIVE, "vllm/vllm-openai:v0.33.0", [DENSE], {}, {"habana.ai/gaudi": 1}, OUT,
        ("OffloadingConnector is not made for a Gaudi",),
    ),
    "a slice of a GPU": (
        {}, "vllm/vllm-openai:v0.33.0", [DENSE], {}, {"nvidia.com/mig-3g.40gb": 1}, OUT,
        ("CUDA IPC does not reach from one GPU instance into another", "mode InProcess"),
    ),
    "a slice of a GPU, inside the engine": (
        INSIDE, "vllm/vllm-openai:v0.25.1", [DENSE], {}, {"nvidia.com/mig-3g.40gb": 1}, WIRED,
        ("deprecated upstream",),
    ),
    "a GPU in turns": (
        {}, "vllm/vllm-openai:v0.33.0", [DENSE], {}, {"nvidia.com/gpu.shared": 1}, WIRED,
        ("CUDA IPC between two containers on a part of a GPU is untested",),
    ),
    # All at once
    "three things at once": (
        {}, "vllm/vllm-openai:v0.7.3", ["/mnt/models", "--mamba-cache-mode", "align"], {}, {},
        "EngineUnsupported",
        ("3 problems: (1) LMCacheMPConnector needs vLLM", "(2) Unknown lmcache version",
         "(3) the model is hybrid"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DECISIONS)
def test_decision_by_image_model_and_accelerator(name: str) -> None:
    tier, image, args, annotations, resources, reason, said = DECISIONS[name]
    engine = d.engine({**TIER, **annotations}, args=args, image=image)
    container = d.wired_pod(engine)["spec"]["containers"][0]
    if resources:
        container["resources"] = {"limits": resources}
    if args == SGLANG:
        container["command"] = container.pop("args")
    required = d.requirements(d.ready_tier(**tier))
    got = call(d.replica(), desired={KEY: engine}, required=required)
    message = got.messages["KVOffloadReady"]
    assert got.conditions["KVOffloadReady"][1] == reason, message
    for text in said:
        assert text in message, message
    if not said:
        assert "Note: " not in message or "torch" in message, message


def decide(manifest: dict[str, Any], **tier: Any) -> tuple[str, str]:
    """(reason, message) for a workload in an Object."""
    resource = d.engine()
    resource["spec"]["forProvider"]["manifest"] = manifest
    required = d.requirements(d.ready_tier(**tier))
    got = call(d.replica(), desired={KEY: resource}, required=required)
    return got.conditions["KVOffloadReady"][1], got.messages["KVOffloadReady"]


def deployment(container: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    annotations = {**TIER, **metadata.pop("annotations", {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "qwen"},
        "spec": {
            "template": {
                "metadata": {"annotations": annotations, **metadata},
                "spec": {"containers": [{"name": "main", **container}]},
            }
        },
    }


def claimed(device_class: str) -> dict[str, Any]:
    """An Object with the template that `engine()`'s pods claim by."""
    requests = [{"name": "gpus", "exactly": {"deviceClassName": device_class, "count": 8}}]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "chat-gpus", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    resource = d.engine()
    resource["spec"]["forProvider"]["manifest"] = template
    return resource


@pytest.mark.parametrize(
    ("device_class", "reason", "said"),
    [
        ("gpu.nvidia.com", WIRED, "Wired to LMCache"),
        ("gpu.amd.com", OUT, "an AMD GPU (the device class gpu.amd.com)"),
        ("gpu.example.com", WIRED, "Wired to LMCache"),
    ],
)
def test_accelerator_is_read_from_the_sibling_claim(
    device_class: str, reason: str, said: str
) -> None:
    """Under DRA the pod names a claim template, which the same composite desires."""
    engine = d.engine(TIER)
    spec = d.wired_pod(engine)["spec"]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "chat-gpus"}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    got = call(
        d.replica(),
        desired={KEY: engine, "claim": claimed(device_class)},
        required=d.requirements(d.ready_tier()),
    )
    assert got.conditions["KVOffloadReady"][1] == reason
    assert said in got.messages["KVOffloadReady"]


def config_map(text: str, provider_config: str = "gpu") -> dict[str, Any]:
    """An Object with the ConfigMap that `configured()`'s pod mounts."""
    resource = d.engine(provider_config=provider_config)
    resource["spec"]["forProvider"]["manifest"] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "vllm", "namespace": "default"},
        "data": {"vllm.yaml": text},
    }
    return resource


def configured() -> dict[str, Any]:
    """An engine whose flags stand in a ConfigMap."""
    engine = d.engine(args=[d.MODEL, "--config", "/etc/vllm/vllm.yaml"])
    spec = d.wired_pod(engine)["spec"]
    spec["volumes"].append({"name": "config", "configMap": {"name": "vllm"}})
    mount = {"name": "config", "mountPath": "/etc/vllm"}
    spec["containers"][0]["volumeMounts"].append(mount)
    return engine


SEEN = "dtype: half\n"
# name: (what is desired beside the engine, reason, what is said)
CONFIGURED: dict[str, tuple[dict[str, Any], str, str]] = {
    "seen": ({"config": config_map(SEEN)}, WIRED, "Wired to LMCache"),
    "not there": (
        {}, "ArgsNotPatchable",
        "--config /etc/vllm/vllm.yaml cannot be read from here (ConfigMap 'vllm' holds it and is "
        "not given with the pods: add it to them)",
    ),
    "of another cluster": (
        {"config": config_map(SEEN, "other")}, "ArgsNotPatchable", "is not given with the pods",
    ),
    "with the offloading flag": (
        {"config": config_map("kv-offloading-size: 4\n")}, "ConnectorConflict",
        "--kv-offloading-size makes vLLM silently overwrite",
    ),
    "for a GPU of another kind": (
        {"config": config_map("device: xpu\n")}, OUT, "--device xpu",
    ),
    "for a model with Mamba": (
        {"config": config_map("mamba-block-size: 256\n")}, "EngineUnsupported", "hybrid",
    ),
    "that vLLM stops on": (
        {"config": config_map("- a\n")}, "ArgsNotPatchable", "is no file that vLLM starts with",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGURED)
def test_config_file_is_read_from_a_sibling_config_map(name: str) -> None:
    siblings, reason, said = CONFIGURED[name]
    required = d.requirements(d.ready_tier())
    got = call(d.replica(), desired={KEY: configured(), **siblings}, required=required)
    assert (got.conditions["KVOffloadReady"][1], said in got.messages["KVOffloadReady"]) == (
        reason,
        True,
    ), got.messages


def test_config_map_edit_counts_as_template_change() -> None:
    """Else the pods would keep the cache identity of the flags that they had."""

    def wired(text: str, **more: Any) -> tuple[dict[str, Any], str]:
        desired = {KEY: configured(), "config": config_map(text)}
        got = call(d.replica(), desired=desired, required=d.requirements(d.ready_tier()), **more)
        assert got.conditions["KVOffloadReady"][1] == WIRED
        resource = got.desired[KEY]
        return resource, json.loads(resource["metadata"]["annotations"][ANNOTATION_RECORD])[
            "template"
        ]

    first, digest = wired(SEEN)
    assert wired("# a comment\ndtype: 'half'\n", observed={KEY: first}) == (first, digest)
    other, changed = wired("dtype: bfloat16\n", observed={KEY: first})
    assert changed != digest
    assert identity_of(other) != identity_of(first)


def identity_of(resource: dict[str, Any]) -> str:
    record = json.loads(resource["metadata"]["annotations"][ANNOTATION_RECORD])
    return next(iter(record["engines"].values()))["identity"]


def test_wired_engine_keeps_its_wiring_without_its_config_map() -> None:
    required = d.requirements(d.ready_tier())
    siblings = {"config": config_map(SEEN)}
    first = call(d.replica(), desired={KEY: configured(), **siblings}, required=required)
    running = {KEY: first.desired[KEY]}
    got = call(d.replica(), desired={KEY: configured()}, observed=running, required=required)
    assert got.conditions["KVOffloadReady"][1] == "ArgsNotPatchable"
    kept = got.desired[KEY]["spec"]["forProvider"]["manifest"]
    assert kept == first.desired[KEY]["spec"]["forProvider"]["manifest"]


def group(**roles: dict[str, Any]) -> dict[str, Any]:
    """A RoleBasedGroup; each role a pod spec, all of them asking."""
    templates = [
        {"name": name, "template": {"metadata": {"annotations": TIER}, "spec": spec}}
        for name, spec in roles.items()
    ]
    return {
        "apiVersion": "workloads.x-k8s.io/v1alpha1",
        "kind": "RoleBasedGroup",
        "metadata": {"name": "chat"},
        "spec": {"roles": templates},
    }


STOCK = {"name": "engine", "image": "vllm/vllm-openai:v0.33.0", "args": [DENSE]}
ENGINE = "modelplane.ai/kv-offload-engine"
LLAMA = {"image": "ghcr.io/ggml-org/llama.cpp:server", "args": ["-m", "/m.gguf"]}
PICKER = {"name": "epp", "image": "registry.k8s.io/epp:v1.2.0", "args": ["--pool-name", "x"]}

# name: (workload, reason, what is said, what is not)
NO_ENGINES: dict[str, tuple[dict[str, Any], str, tuple[str, ...], tuple[str, ...]]] = {
    "GPUStack's injector": (
        deployment(STOCK, labels={"kvcache.gpustack.ai/inject": "true"}),
        OUT, ("GPUStack", "kvcache.gpustack.ai/inject"), (),
    ),
    "LMCache's injector": (
        deployment(STOCK, annotations={"lmcache.ai/lmcache-engine": "x"}),
        OUT, ("LMCache's operator",), (),
    ),
    "llama.cpp": (deployment(LLAMA), OUT, ("starts llama.cpp",), (ENGINE,)),
    "llama.cpp, declared to be vLLM": (
        deployment(LLAMA, annotations={ENGINE: "vLLM"}),
        "EngineUnknown", ("the annotation says vLLM", "visibly starts llama.cpp"), (),
    ),
    "a benchmark client in vLLM's image": (
        deployment({**STOCK, "command": ["tini", "--", "vllm", "bench", "serve"], "args": []}),
        OUT, ("a benchmark client",), (ENGINE,),
    ),
    "a Python script": (
        deployment({"image": "mine/app:1", "command": ["python3", "app.py"]}),
        "EngineUnknown", ("its command hides what it starts",), (ENGINE,),
    ),
    "a shell that sleeps": (
        deployment({"image": "mine/app:1", "command": ["sleep", "infinity"]}),
        "EngineUnknown", ("its command starts no engine",), (ENGINE,),
    ),
    "an engine declared, and nothing that starts one": (
        deployment(
            {"image": "mine/app:1", "command": ["sleep", "1"]},
            annotations={
                ENGINE: "vLLM",
                PACKAGES: "lmcache=0.5.6",
                "modelplane.ai/kv-offload-cache-identity": "x",
            },
        ),
        "ArgsNotPatchable", ("no command here starts an engine",), (),
    ),
    "a picker beside the engine": (
        group(router={"containers": [PICKER]}, main={"containers": [STOCK]}),
        WIRED, ("Left as it is", "an endpoint picker"), (),
    ),
    "a picker alone": (group(router={"containers": [PICKER]}), OUT, ("an endpoint picker",), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_ENGINES)
def test_unsupported_workloads_get_a_reason(name: str) -> None:
    manifest, reason, said, unsaid = NO_ENGINES[name]
    found, message = decide(manifest)
    assert found == reason, message
    for text in said:
        assert text in message, message
    for text in unsaid:
        assert text not in message, message


def role(*args: str, claim: str = "a", image: str = STOCK["image"]) -> dict[str, Any]:
    """A pod spec that serves what is on a volume at the path that everybody uses."""
    container = {
        "name": "engine",
        "image": image,
        "args": ["/mnt/models", *args],
        "volumeMounts": [{"name": "m", "mountPath": "/mnt/models"}],
    }
    volume = {"name": "m", "persistentVolumeClaim": {"claimName": claim}}
    return {"containers": [container], "volumes": [volume]}


def sglang(*args: str, claim: str = "a") -> dict[str, Any]:
    """As `role`, with SGLang."""
    spec = role(claim=claim)
    command = ["sglang", "serve", "--model-path", "/mnt/models", *args]
    spec["containers"][0] |= {"image": "lmcache/sglang:v0.5.6", "command": command, "args": []}
    return spec


# name: (the tier, one role, the other)
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "one volume": ({}, role(), role()),
    "two volumes under one path": ({}, role(), role(claim="b")),
    "the same in the pool": (POOL, role(), role(claim="b")),
    "SGLang, one volume": (SHARED, sglang(), sglang()),
    "SGLang, two volumes under one path": (SHARED, sglang(), sglang(claim="b")),
    "SGLang, another data type": (SHARED, sglang(), sglang("--kv-cache-dtype", "fp8_e5m2")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_engines_are_wired_alike_in_one_or_two_workloads(name: str) -> None:
    """One workload with two engines, and one composite with two workloads, are wired alike."""
    tier, one, other = PAIRS[name]
    found, message = decide(group(one=one, other=other), **tier)
    assert found == WIRED, message
    desired = {}
    for key, spec in (("one", one), ("other", other)):
        desired[key] = d.engine()
        manifest = deployment({})
        manifest["spec"]["template"]["spec"] = spec
        desired[key]["spec"]["forProvider"]["manifest"] = manifest
    required = d.requirements(d.ready_tier(**tier))
    got = call(d.replica(), desired=desired, required=required)
    assert got.conditions["KVOffloadReady"][1] == WIRED, got.messages


NIXL = '{"kv_connector":"NixlConnector","kv_role":"%s"}'
MULTI = (
    '{"kv_connector":"MultiConnector","kv_role":"kv_both","kv_connector_extra_config":'
    '{"connectors":[{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}]}}'
)
CHOSEN = (
    '{"kv_connector":"NixlConnector","kv_role":"kv_consumer","kv_load_failure_policy":"recompute"}'
)
# the user's connector: (the store's role in the pool, the policy at the top)
PHASES = {
    "": ("kv_both", "recompute"),
    NIXL % "kv_producer": ("kv_both", None),
    NIXL % "kv_consumer": ("kv_consumer", None),
    NIXL % "kv_both": ("kv_both", None),
    MULTI: ("kv_consumer", None),
    CHOSEN: ("kv_consumer", "recompute"),
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}': ("kv_both", "recompute"),
}


@pytest.mark.parametrize("connector", PHASES)
def test_phase_follows_the_flags_and_failed_transfers_stay_failures(connector: str) -> None:
    args = [DENSE, *(["--kv-transfer-config", connector] if connector else [])]
    engine = d.engine(args=args, image="vllm/vllm-openai:v0.33.0")
    required = d.requirements(d.ready_tier(**POOL))
    got = call(d.replica(), desired={KEY: engine}, required=required)
    assert got.conditions["KVOffloadReady"][1] == WIRED, got.messages
    container = d.wired_pod(got.desired[KEY])["spec"]["containers"][0]
    config = json.loads(container["args"][-1])
    listed = config.get("kv_connector_extra_config", {}).get("connectors", [config])
    store = next(c for c in listed if c["kv_connector"] == "MooncakeStoreConnector")
    assert (store["kv_role"], config.get("kv_load_failure_policy")) == PHASES[connector]


# (the pod's label llm-d.ai/role, its own connector's role, the label of other pods beside it)
# -> the store's role in the pool
ROLES = (
    ("decode", "", "prefill", "kv_both"),  # llm-d labels engines that do both phases, too
    ("prefill", "", "decode", "kv_both"),
    ("both", "", "", "kv_both"),
    ("decode", "kv_both", "prefill", "kv_consumer"),
    ("decode", "kv_both", "", "kv_both"),
    ("decode", "kv_both", "decode", "kv_both"),
    ("decode", "kv_producer", "prefill", "kv_both"),
)


@pytest.mark.parametrize(("label", "own", "other", "role"), ROLES)
def test_label_counts_for_engines_that_transfer_blocks(
    label: str, own: str, other: str, role: str
) -> None:
    args = [DENSE, *(["--kv-transfer-config", NIXL % own] if own else [])]
    engine, partner = (d.engine(args=args, image="vllm/vllm-openai:v0.33.0") for _ in range(2))
    d.wired_pod(engine)["metadata"].setdefault("labels", {})["llm-d.ai/role"] = label
    d.wired_pod(partner)["metadata"].setdefault("labels", {})["llm-d.ai/role"] = other
    required = d.requirements(d.ready_tier(**POOL))
    got = call(d.replica(), desired={KEY: engine, "other": partner}, required=required)
    container = d.wired_pod(got.desired[KEY])["spec"]["containers"][0]
    config = json.loads(container["args"][-1])
    listed = config.get("kv_connector_extra_config", {}).get("connectors", [config])
    store = next(c for c in listed if c["kv_connector"] == "MooncakeStoreConnector")
    assert store["kv_role"] == role, got.messages


HOST = {"host": {"sizeGiB": 10}}


def test_label_of_an_sglang_engine_that_does_both_phases_counts_for_nothing() -> None:
    engine = d.engine(args=[], image="lmsysorg/sglang:v0.5.23")
    pod = d.wired_pod(engine)
    start = ["python3", "-m", "sglang.launch_server", "--model-path", DENSE]
    pod["spec"]["containers"][0] |= {"command": start, "args": []}
    required = d.requirements(d.ready_tier(backend="HiCache", lmcache=None, hicache=HOST))
    got = {}
    for label in ("", "decode"):
        pod["metadata"]["labels"] = {"llm-d.ai/role": label} if label else {}
        answer = call(d.replica(), desired={KEY: engine}, required=required)
        assert answer.conditions["KVOffloadReady"][1] == WIRED, answer.messages
        got[label] = d.wired_pod(answer.desired[KEY])["spec"]["containers"][0]
    assert got[""] == got["decode"]


@pytest.mark.parametrize(
    ("siblings", "reason"),
    [
        ({}, WIRED),
        ({"envFrom": [{"configMapRef": {"name": "more"}}]}, "ArgsNotPatchable"),
        ({"env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--max-num-seqs 4"}]}, WIRED),
    ],
)
def test_flag_variable_is_empty_only_when_env_is_fully_known(
    siblings: dict[str, Any], reason: str
) -> None:
    script = f"exec vllm serve {DENSE} $VLLM_ADDITIONAL_ARGS"
    container = {"image": STOCK["image"], "command": ["sh", "-c", script], **siblings}
    found, message = decide(deployment(container))
    assert found == reason, message


KV = '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}'


@pytest.mark.parametrize(
    ("args", "env", "left"),
    [
        (["$(KV)"], {"KV": KV}, []),
        (["$(F)", "$(V)"], {"F": KV.partition("=")[0], "V": KV.partition("=")[2]}, []),
        ([KV.partition("=")[0], "$(V)"], {"V": KV.partition("=")[2]}, []),
        (
            ["--kv-transfer-config=$(V)", "--max-num-seqs", "8"],
            {"V": KV.partition("=")[2]},
            ["--max-num-seqs", "8"],
        ),
    ],
)
def test_flag_in_a_variable_is_read_and_merged(
    args: list[str], env: dict[str, str], left: list[str]
) -> None:
    """The variable itself stays: nothing says who else reads it."""
    variables = [{"name": name, "value": value} for name, value in env.items()]
    engine = d.engine()
    manifest = deployment({"image": STOCK["image"], "args": [DENSE, *args], "env": variables})
    engine["spec"]["forProvider"]["manifest"] = manifest
    required = d.requirements(d.ready_tier())
    got = call(d.replica(), desired={KEY: engine}, required=required)
    assert got.conditions["KVOffloadReady"][1] == WIRED, got.messages
    container = d.wired_pod(got.desired[KEY])["spec"]["containers"][0]
    assert container["env"][: len(variables)] == variables
    assert container["args"][:-2] == [DENSE, *left]
    flag, config = container["args"][-2:]
    connectors = json.loads(config)["kv_connector_extra_config"]["connectors"]
    assert flag == "--kv-transfer-config"
    assert [c["kv_connector"] for c in connectors] == ["NixlConnector", "LMCacheMPConnector"]


SHARED_SPEC = (
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":'
    '{"spec_name":"SharedStorageOffloadingSpec","spec_module_path":"llmd_fs_backend.spec"}}'
)
OF_CPU = (
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":'
    '{"spec_name":"CPUOffloadingSpec"}}'
)
# What was found in public manifests that nobody had seen: (the tier, arguments, reason, said)
FOUND: dict[str, tuple[dict[str, Any], list[str], str, str]] = {
    "on a CPU, by the flag": (
        NATIVE, ["--device=cpu", "--dtype=float32"], OUT, "a CPU (--device cpu)",
    ),
    "on a GPU, by the flag": (NATIVE, ["--device", "cuda"], WIRED, "Wired to Native"),
    "an offload of another make": (
        NATIVE, ["--kv-transfer-config", SHARED_SPEC], "ConnectorConflict",
        "names an offload of its own (SharedStorageOffloadingSpec of llmd_fs_backend.spec)",
    ),
    "vLLM's own, by its name": (
        NATIVE, ["--kv-transfer-config", OF_CPU], WIRED, "Wired to Native",
    ),
    "one engine over the pods of a StatefulSet": (
        {}, ["--nnodes", "2", "--node-rank", "0", "--tensor-parallel-size", "16"],
        "EngineUnsupported", "The engine spans 2 pods",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_decision_of_manifests_found_in_the_wild(name: str) -> None:
    tier, args, reason, said = FOUND[name]
    container = {"image": STOCK["image"], "args": [DENSE, *args]}
    found, message = decide(deployment(container), **tier)
    assert (found, said in message) == (reason, True), message


def test_memory_is_counted_for_ranks_of_one_node() -> None:
    resources = {"limits": {"memory": "100Gi"}}
    flags = ["--tp", "16", "--nnodes", "2", "--node-rank", "0"]
    container = {"image": "lmsysorg/sglang:v0.5.23", "command": [*SGLANG, *flags]}
    engine = d.engine()
    manifest = deployment({**container, "resources": resources})
    engine["spec"]["forProvider"]["manifest"] = manifest
    required = d.requirements(d.ready_tier(**HIERARCHY))
    got = call(d.replica(), desired={KEY: engine}, required=required)
    limits = d.wired_pod(got.desired[KEY])["spec"]["containers"][0]["resources"]["limits"]
    assert limits["memory"] == "180Gi", got.messages


def test_kserve_message_names_vllm_additional_args() -> None:
    manifest = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "m"},
        "spec": {"annotations": TIER, "template": {"containers": [{"name": "main"}]}},
    }
    found, message = decide(manifest)
    assert (found, "VLLM_ADDITIONAL_ARGS" in message) == ("EngineUnknown", True), message


UNKNOWN_KINDS = {
    "KubeAI": ("kubeai.org/v1", "Model", {"engine": "VLLM", "url": "hf://a/b"}),
    "kthena": ("workload.serving.volcano.sh/v1alpha1", "ModelBooster", {"backends": []}),
    "Dynamo": ("nvidia.com/v1beta1", "DynamoGraphDeployment", {"components": []}),
    "KAITO": ("kaito.sh/v1beta1", "Workspace", {"inference": {"preset": {"name": "phi-4"}}}),
    "NIM": ("apps.nvidia.com/v1alpha1", "NIMService", {"image": {}}),
}


@pytest.mark.parametrize("name", UNKNOWN_KINDS)
@pytest.mark.parametrize("place", ["metadata", "field"])
def test_unknown_kind_gets_a_condition(name: str, place: str) -> None:
    api_version, kind, spec = UNKNOWN_KINDS[name]
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "m"}, "spec": spec}
    by_field = {"kvOffloadTierRef": {"name": "chat"}} if place == "field" else {}
    if place == "metadata":
        manifest["metadata"] = {"name": "m", "annotations": TIER}
    engine = d.engine()
    engine["spec"]["forProvider"]["manifest"] = manifest
    required = d.requirements(d.ready_tier())
    got = call(d.replica(**by_field), desired={KEY: engine}, required=required)
    assert got.desired[KEY] == engine
    assert got.conditions["KVOffloadReady"] == (
        "False", "RequestIgnored" if place == "metadata" else "NothingToWire"
    ), got.messages  # fmt: skip


def test_store_of_the_user_is_a_connector_conflict() -> None:
    for name in ("MOONCAKE_MASTER", "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH"):
        env = [{"name": name, "value": "mine:50051"}]
        container = {"image": "lmsysorg/sglang:v0.5.23", "command": SGLANG, "env": env}
        found, message = decide(deployment(container), **POOL)
        assert (found, name in message) == ("ConnectorConflict", True), message


INPUT = {"apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1", "kind": "Input"}
OWN = {"image": "registry.example/ours:v7", "args": ["--model", DENSE]}
INSIDE_OWN = {PACKAGES: "lmcache=0.5.6"}
OF_INPUT = {"engineImages": {"ours": {"engine": "vLLM", "entrypoint": ["vllm", "serve"]}}}
# What was said when it was wired, and is said no more: (workload, the Input, the composite's spec)
FORGOTTEN: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing": (deployment(STOCK), {}, {}),
    "the Input's engine": (deployment(OWN, annotations=INSIDE_OWN), {"engine": "vLLM"}, {}),
    "the Input's images": (deployment(OWN, annotations=INSIDE_OWN), OF_INPUT, {}),
    "the Input's container": (
        group(main={"containers": [STOCK, {**STOCK, "name": "odd"}]}), {"container": "odd"}, {},
    ),
    "the field's engine": (
        deployment(OWN, annotations=INSIDE_OWN),
        {},
        {"kvOffloadTierRef": {"name": "chat", "engine": "vLLM"}},
    ),
    "beside a router": (
        group(router={"containers": [PICKER]}, main={"containers": [STOCK]}), {}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGOTTEN)
def test_replay_needs_only_the_record(name: str) -> None:
    manifest, step_input, spec = FORGOTTEN[name]
    engine = d.engine()
    engine["spec"]["forProvider"]["manifest"] = manifest
    before = call(
        d.replica(**spec),
        step_input={**INPUT, **step_input},
        desired={KEY: engine},
        required=d.requirements(d.ready_tier()),
    )
    assert before.conditions["KVOffloadReady"][1] == WIRED, before.messages
    for spec_then in (spec, {}):
        after = call(
            d.replica(**spec_then),
            step_input=INPUT,
            desired={KEY: engine},
            observed={KEY: before.desired[KEY]},
            required=d.requirements(),
        )
        assert after.desired[KEY] == before.desired[KEY], after.messages
        assert "Still wired as recorded" in after.messages["KVOffloadReady"]


def phase_engine(mode: str, *more: str) -> dict[str, Any]:
    command = [*SGLANG, "--disaggregation-mode", mode, *more]
    return {"containers": [{"name": "e", "image": "lmsysorg/sglang:v0.5.23", "command": command}]}


RADIX = "--disaggregation-decode-enable-radix-cache"
HIERARCHY: dict[str, Any] = {
    "backend": "HiCache", "lmcache": None, "hicache": {"host": {"sizeGiB": 10}},
}  # fmt: skip
# name: (the tier, decode's further flags, the roles that are wired, the reason, what is said)
LEFT_HALVES: dict[str, tuple[dict[str, Any], list[str], list[str], str, str]] = {
    "the pool": (POOL, [], ["prefill"], WIRED, "Left as it is: decode: A decode engine gets"),
    "the pool, radix": (POOL, [RADIX], ["decode", "prefill"], WIRED, "SGLang 0.5.23"),
    "the hierarchy": (
        HIERARCHY, [], ["prefill"], WIRED, "Left as it is: decode: A decode engine gets",
    ),
    "neither half": (
        POOL, ["--enable-lora"], [], "CacheIdentityConflict", "only the adapters' names",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_HALVES)
def test_unwired_decode_engine_does_not_unwire_prefill(name: str) -> None:
    tier, more, roles, reason, said = LEFT_HALVES[name]
    of_both = more if not roles else []
    manifest = group(
        decode=phase_engine("decode", *more), prefill=phase_engine("prefill", *of_both)
    )
    engine = d.engine()
    engine["spec"]["forProvider"]["manifest"] = manifest
    required = d.requirements(d.ready_tier(**tier))
    got = call(d.replica(), desired={KEY: engine}, required=required)
    message = got.messages["KVOffloadReady"]
    assert (got.conditions["KVOffloadReady"][1], said in message) == (reason, True), message
    if not roles:
        return
    after = got.desired[KEY]["spec"]["forProvider"]["manifest"]["spec"]["roles"]
    wired = {
        role["name"]: "--enable-hierarchical-cache"
        in role["template"]["spec"]["containers"][0]["command"]
        for role in after
    }
    assert sorted(name for name, is_wired in wired.items() if is_wired) == roles
    again = call(
        d.replica(),
        desired={KEY: engine},
        observed={KEY: got.desired[KEY]},
        required=d.requirements(),
    )
    assert again.desired[KEY] == got.desired[KEY], again.messages


@pytest.mark.parametrize("mode", ["Leave", "Offload"])
def test_decode_engine_offloads_to_a_pool_when_the_tier_says_so(mode: str) -> None:
    pool = {"masterAddress": "m:50051", "version": "0.3.13"}
    storage = {"type": "Mooncake", "mooncake": {"external": pool}}
    tier: dict[str, Any] = {
        **HIERARCHY, "hicache": {**HIERARCHY["hicache"], "decode": mode, "storage": storage},
    }  # fmt: skip
    manifest = deployment({})
    manifest["spec"]["template"]["spec"] = phase_engine("decode")
    found, message = decide(manifest, **tier)
    assert found == (WIRED if mode == "Offload" else OUT), message


def test_prefill_and_decode_in_two_workloads_are_wired_alike() -> None:
    desired = {}
    for mode in ("decode", "prefill"):
        desired[mode] = d.engine()
        manifest = deployment({})
        manifest["spec"]["template"]["spec"] = phase_engine(mode)
        desired[mode]["spec"]["forProvider"]["manifest"] = manifest
    required = d.requirements(d.ready_tier(**POOL))
    got = call(d.replica(), desired=desired, required=required)
    assert got.desired["decode"] == desired["decode"], got.messages
    wired = d.wired_pod(got.desired["prefill"])["spec"]["containers"][0]["command"]
    assert "--enable-hierarchical-cache" in wired, got.messages
    assert "decode: A decode engine gets its blocks" in got.messages["KVOffloadReady"]


HIDDEN = "CacheIdentityConflict"
CACHE_IDENTITY = "modelplane.ai/kv-offload-cache-identity"
# name: (script, variables, the reason on a tier with shared blocks, what is said)
OPTED_IN: dict[str, tuple[str, dict[str, str], str, str]] = {
    "nothing else": ("exec vllm serve org/m $KV_OFFLOAD_ARGS", {}, WIRED, "cache identity"),
    "a variable": (
        "exec vllm serve org/m $KV_OFFLOAD_ARGS $ARGS", {}, HIDDEN,
        "cannot be read from the pod: the flags in $ARGS.",
    ),
    "a variable in quotes": (
        'exec vllm serve org/m "$ARGS" $KV_OFFLOAD_ARGS', {}, HIDDEN, 'the flags in "$ARGS".',
    ),
    "an array": (
        'exec vllm serve org/m "${args[@]}" $KV_OFFLOAD_ARGS', {}, HIDDEN,
        "the flags in ${args[@]}.",
    ),
    "output of a command": (
        "exec vllm serve org/m $(cat /flags) $KV_OFFLOAD_ARGS", {}, HIDDEN,
        "the flags in $(cat /flags).",
    ),
    "a declared variable": (
        "exec vllm serve org/m $KV_OFFLOAD_ARGS $ARGS", {"ARGS": "--kv-cache-dtype fp8"}, WIRED,
        "cache identity",
    ),
    "a flag's value": (
        "exec vllm serve org/m $KV_OFFLOAD_ARGS --kv-cache-dtype $DTYPE", {}, HIDDEN,
        "cannot be read from the pod: --kv-cache-dtype ($DTYPE).",
    ),
    "a harmless value": (
        "exec vllm serve org/m $KV_OFFLOAD_ARGS --port $PORT", {}, WIRED, "cache identity",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTED_IN)
def test_identity_is_unknown_where_a_script_hides_flags(name: str) -> None:
    script, env, reason, said = OPTED_IN[name]
    container = {
        "image": "vllm/vllm-openai:v0.33.0",
        "command": ["bash", "-c", script],
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    manifest = deployment(container)
    got, message = decide(manifest)
    assert (got, said in message) == (reason, True), message
    if reason != HIDDEN:
        return
    # A name for the weights would not help.
    assert CACHE_IDENTITY not in message
    found = re.search(r"\$(ARGS|DTYPE)", script)
    assert found is None or f"Give {found[1]} (line 1) a value in the" in message
    unshared, note = decide(manifest, **NATIVE)
    assert unshared == WIRED and "identity unknown: " in note, note
    manifest["spec"]["template"]["metadata"] = {"annotations": {**TIER, CACHE_IDENTITY: "llama"}}
    assert decide(manifest)[0] == HIDDEN


USERS = [
    ({}, {}, True),
    ({"runAsUser": 0}, {"runAsNonRoot": True}, True),
    ({}, {"runAsNonRoot": True}, False),
    ({"runAsUser": 1000}, {}, False),
    ({}, {"runAsUser": 1000}, False),
    ({"privileged": True, "runAsUser": 1000}, {}, True),
]


@pytest.mark.parametrize(("own", "pods", "added"), USERS)
def test_capability_is_added_only_where_effective(
    own: dict[str, Any], pods: dict[str, Any], added: bool
) -> None:
    tier = {
        **POOL,
        "mooncake": {"protocol": "rdma", "store": {"sizeGiB": 10}},
        "rdma": {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}},
    }
    manifest = deployment({**STOCK, "securityContext": own})
    manifest["spec"]["template"]["spec"]["securityContext"] = pods
    engine = d.engine()
    engine["spec"]["forProvider"]["manifest"] = manifest
    required = d.requirements(d.ready_tier(**tier))
    got = call(d.replica(), desired={KEY: engine}, required=required)
    message = got.messages["KVOffloadReady"]
    assert got.conditions["KVOffloadReady"][1] == WIRED, message
    context = d.wired_pod(got.desired[KEY])["spec"]["containers"][0]["securityContext"]
    has = "IPC_LOCK" in context.get("capabilities", {}).get("add", [])
    assert has == (added and not own.get("privileged"))
    assert ("memlock" in message) == (not added)
