"""Engine, version and the source of both."""

from dataclasses import replace

import pytest

from function import command
from function.api.base import parse
from function.api.consumer import KVOffloadTierRef
from function.api.deployment import ModelDeploymentSpec
from function.api.input import EngineImage, Input
from function.command import EngineCall, ImageCall, Program
from function.pods import identify
from function.pods.declared import Declared, declared
from function.pods.offload_request import composite_reference
from function.pods.refs import Ref
from function.problems import Problem, Refused
from function.reasons import Policy


def declared_by_annotation(**values):
    """Return what these annotations declare."""
    return Declared(**values, **{f"{name}_source": "annotation" for name in values})


VLLM_CALL = Program((EngineCall("vLLM", "vllm serve", ()),))
SGLANG_CALL = Program((EngineCall("SGLang", "sglang serve", ()),))
INERT = Program(inert=True)
UNREADABLE = Program(problem="there is no command")
MINE = {
    "serve": EngineImage(engine="SGLang", entrypoint=["python3", "-m", "x"]),
    "llm": EngineImage(engine="vLLM", version="0.32.0"),
    "llm:v7": EngineImage(engine="vLLM", version="0.34.0"),
    "corp.example/ml/llm": EngineImage(engine="vLLM", version="0.30.0"),
    "corp.example/ml/llm:v8": EngineImage(engine="vLLM", version="0.31.0"),
}


def pod(image, program, **more):
    return ({"name": "engine", "image": image, "command": ["serve"], **more}, program)


OFFICIAL = "vllm/vllm-openai:v0.33.0-cu129"

# name: (pods, declared, Input's engine, Input's version, wanted)
FOUND = {
    "argv and tag": (
        [pod(OFFICIAL, VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.33.0", "image tag"),
    ),
    "arguments of an image's own entrypoint": (
        [pod(OFFICIAL, VLLM_CALL, command=None)],
        Declared(),
        "",
        "",
        ("vLLM", "engineImages", "0.33.0", "image tag"),
    ),
    "an image of one's own": (
        [pod("reg/team/own:v1.2.3", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, ""),
    ),
    "a mirror": (
        [pod("reg:5000/mirror/vllm-openai:v0.23.0", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.23.0", "image tag"),
    ),
    "LMCache's tag is LMCache's version, and tells the engine's": (
        [pod("lmcache/vllm-openai:v0.5.6", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.31.0", "image, derived"),
    ),
    "somebody looked into LMCache's image": (
        [pod("lmcache/vllm-openai:v0.5.5", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.29.0", "image"),
    ),
    "NVIDIA's tag is a release date": (
        [pod("nvcr.io/nvidia/vllm:26.08-py3", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, ""),
    ),
    "AMD's tag holds it": (
        [pod("rocm/vllm:rocm7.0_ubuntu22.04_py3.12_vllm_0.23.0", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.23.0", "image tag"),
    ),
    "a build that keeps the stock image's name": (
        [pod("reg/aibrix/vllm-openai-kvcache:v0.10.2-nixl-0.7.1", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.10.2", "image tag"),
    ),
    "a build of a commit": (
        [pod("reg/official-vllm-openai:v0.7.3.78f0810ef", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.7.3", "image tag"),
    ),
    "an image that is called after vLLM": (
        [pod("reg/kube-ai/vllm:0.4.1", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.4.1", "image tag"),
    ),
    "a build of vLLM for something else": (
        [pod("reg/vllm-cpu:v0.9.0-arm", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.9.0", "image tag"),
    ),
    "an image of AWS's": (
        [pod("public.ecr.aws/deep-learning-containers/vllm:0.11-gpu-py312", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.11", "image tag"),
    ),
    "an image that is called after vLLM, and counts its own builds": (
        [pod("reg/team/vllm:2.14.0", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, ""),
    ),
    "a tag that names the engine and its version": (
        [pod("reg/inference:0.3.4.post2-sglang0.4.10.post2-pytorch2.7", SGLANG_CALL)],
        Declared(),
        "",
        "",
        ("SGLang", "argv", "0.4.10", "image tag"),
    ),
    "a script installs another": (
        [pod(OFFICIAL, VLLM_CALL, args=["pip install 'vllm[audio]==0.9.2' && vllm serve m"])],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.9.2", "pip install"),
    ),
    "a script installs one of two": (
        [
            pod(
                "ubuntu:22.04",
                VLLM_CALL,
                args=["pip install vllm==0.9.2 || pip install vllm==0.33.0"],
            )
        ],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, "pip install, of no version that can be read"),
    ),
    "a script installs a version that a variable holds": (
        [pod(OFFICIAL, VLLM_CALL, args=["pip install vllm==$V && vllm serve m"])],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, "pip install, of no version that can be read"),
    ),
    "a script makes sure that one is there": (
        [pod("vllm/vllm-openai:v0.33.0", VLLM_CALL, args=["pip install vllm; vllm serve m"])],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.33.0", "image tag"),
    ),
    "Ray Serve starts it in the cluster's pods": (
        [({}, VLLM_CALL), pod("rayproject/ray-llm:2.52.0-py311-cu128", INERT)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.11.2", "image, derived"),
    ),
    "a post-release": (
        [pod("lmsysorg/sglang:v0.5.15.post1-rocm700", SGLANG_CALL)],
        Declared(),
        "",
        "",
        ("SGLang", "argv", "0.5.15.post1", "image tag"),
    ),
    "latest": (
        [pod("lmsysorg/sglang:latest", SGLANG_CALL)],
        Declared(),
        "",
        "",
        ("SGLang", "argv", None, ""),
    ),
    "a digest": (
        [pod("vllm/vllm-openai@sha256:00", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, ""),
    ),
    "the annotation first": (
        [pod("reg/x:1", UNREADABLE)],
        declared_by_annotation(engine="SGLang", version="0.5.23"),
        "vLLM",
        "0.33.0",
        ("SGLang", "annotation", "0.5.23", "annotation"),
    ),
    "the input for pods that show nothing": (
        [pod("reg/x:1", UNREADABLE)],
        Declared(),
        "vLLM",
        "0.33.0",
        ("vLLM", "input", "0.33.0", "input"),
    ),
    "argv wins over the input's default": (
        [pod("reg/x:1", SGLANG_CALL)],
        Declared(),
        "vLLM",
        "",
        ("SGLang", "argv", None, ""),
    ),
    "the table of images": (
        [pod("vllm/vllm-openai:v0.33.0", UNREADABLE)],
        Declared(),
        "",
        "",
        ("vLLM", "engineImages", "0.33.0", "image tag"),
    ),
    "the input's table of images": (
        [pod("reg/llm/serve:v0.5.23", UNREADABLE)],
        Declared(),
        "",
        "",
        ("SGLang", "engineImages", None, ""),
    ),
    "the input's version of an image": (
        [pod("reg/team/llm:v6", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.32.0", "engineImages"),
    ),
    "the input's version of a tag before that of its image": (
        [pod("reg/team/llm:v7", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.34.0", "engineImages"),
    ),
    "the input's version of a repository as the pod has it": (
        [pod("corp.example/ml/llm:v6", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.30.0", "engineImages"),
    ),
    "the input's version of a repository and tag as the pod has them": (
        [pod("corp.example/ml/llm:v8", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.31.0", "engineImages"),
    ),
    "the input's version of a tag before that of a repository": (
        [pod("corp.example/ml/llm:v7", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.34.0", "engineImages"),
    ),
    "a gang by its leader": (
        [pod("reg/x:1", INERT), pod("vllm/vllm-openai:v0.33.0", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", "0.33.0", "image tag"),
    ),
    "members with different versions tell none": (
        [pod("vllm/vllm-openai:v0.33.0", VLLM_CALL), pod("vllm/vllm-openai:v0.32.0", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, ""),
    ),
    "another engine's tag tells nothing": (
        [pod("lmsysorg/sglang:v0.5.23", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, ""),
    ),
    "plain vLLM in Dynamo's image": (
        [pod("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.4.0", VLLM_CALL)],
        Declared(),
        "",
        "",
        ("vLLM", "argv", None, ""),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_engine_and_version_are_identified(name):
    pods, said, engine, version, wanted = FOUND[name]
    said = replace(said, default_engine=engine, default_version=version)
    got = identify.identify(pods, said, MINE)
    assert (got.name, got.name_source, got.version, got.version_source) == wanted


REFUSED = {
    "nothing tells": ([pod("reg/x:1", UNREADABLE)], Declared(), "EngineUnknown"),
    "no image": ([({"name": "engine"}, UNREADABLE)], Declared(), "EngineUnknown"),
    "two engines in one gang": (
        [pod("a", VLLM_CALL), pod("b", SGLANG_CALL)],
        Declared(),
        "EngineUnknown",
    ),
    "an annotation against argv": (
        [pod("a", VLLM_CALL)],
        declared_by_annotation(engine="SGLang"),
        "EngineUnknown",
    ),
    "NIM": ([pod("nvcr.io/nim/meta/llama:1", UNREADABLE)], Declared(), "OutOfScope"),
    "Dynamo": (
        [pod("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.4.0", UNREADABLE)],
        Declared(),
        "OutOfScope",
    ),
    "Triton": ([pod("nvcr.io/nvidia/tritonserver:26.01", UNREADABLE)], Declared(), "OutOfScope"),
    "TGI": (
        [pod("ghcr.io/huggingface/text-generation-inference:3", UNREADABLE)],
        Declared(),
        "OutOfScope",
    ),
    "Triton by argv": ([pod("a", Program(other_stack="NVIDIA Triton"))], Declared(), "OutOfScope"),
    "KVBM by env": (
        [pod(OFFICIAL, VLLM_CALL, env=[{"name": "DYN_KVBM_CPU_CACHE_GB", "value": "4"}])],
        Declared(),
        "OutOfScope",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    pods, said, reason = REFUSED[name]
    with pytest.raises(Refused) as refused:
        identify.identify(pods, said, {})
    assert refused.value.reason == reason


def test_engine_started_by_an_image():
    assert identify.image_call({"image": OFFICIAL}, {}) == ImageCall("vLLM", ("vllm", "serve"))
    assert identify.image_call({"image": "lmsysorg/sglang:v0.5.23"}, {}) == ImageCall()
    assert identify.image_call({"image": "reg/serve:1"}, MINE) == ImageCall(
        "SGLang", ("python3", "-m", "x")
    )
    assert identify.image_call({"image": "reg/other:1"}, MINE) is None
    own = {"image": "reg/llm:1"}
    assert identify.image_call({**own, "args": ["vllm", "serve"]}, MINE) == ImageCall()
    said = identify.image_call({**own, "args": ["--model", "m"]}, MINE)
    assert said == ImageCall("vLLM", identify.OWN_ENTRYPOINT), "flags are no command line"


def test_official_image_with_arguments_is_identified():
    container = {"name": "engine", "image": OFFICIAL, "args": ["org/model", "--max-num-seqs=8"]}
    program = command.read(container, identify.image_call(container, {}))
    found = identify.identify([(container, program)], Declared(), {})
    assert (found.name, found.version, found.image) == ("vLLM", "0.33.0", OFFICIAL)
    assert [w.value for w in program.calls[0].words] == ["org/model", "--max-num-seqs=8"]


A = "modelplane.ai/kv-offload-"


def annotated(**values):
    return {"metadata": {"annotations": {A + k.replace("_", "-"): v for k, v in values.items()}}}


DECLARED = {
    "nothing": ([{}, {"metadata": {}}], Declared()),
    "a name": ([annotated(tier="chat")], Declared(ref=Ref("modelplane-system", "chat"))),
    "one member counts for its gang": (
        [annotated(tier="ns/chat", policy="Optional"), {}, annotated(engine="vllm")],
        replace(
            declared_by_annotation(engine="vLLM"), ref=Ref("ns", "chat"), policy=Policy.OPTIONAL
        ),
    ),
    "all of it": (
        [annotated(engine_version="v0.33", cache_identity="llama@1", engine="SGLang")],
        replace(declared_by_annotation(engine="SGLang", version="0.33"), cache_identity="llama@1"),
    ),
}


@pytest.mark.parametrize("name", DECLARED)
def test_valid_declarations_are_accepted(name):
    templates, wanted = DECLARED[name]
    assert declared(templates, None, Input()) == wanted


FIELD = KVOffloadTierRef(name="f", engine="SGLang", engine_version="0.5.23", cache_identity="f@1")
INPUT = Input(engine="vLLM", engine_version="0.33.0", tier_namespace="tiers")
BY_FIELD = Declared(
    Ref("tiers", "f"),
    Policy.REQUIRED,
    "SGLang",
    "field",
    "0.5.23",
    "field",
    "f@1",
    default_engine="vLLM",
    default_version="0.33.0",
)
TOGETHER = {
    "the field alone": ([{}], BY_FIELD),
    "an annotation wins over the field, one by one": (
        [annotated(engine_version="0.5.20", cache_identity="a@1")],
        replace(BY_FIELD, version="0.5.20", version_source="annotation", cache_identity="a@1"),
    ),
    "a tier of its own takes no policy from the field": (
        [annotated(tier="chat")],
        replace(BY_FIELD, ref=Ref("tiers", "chat"), policy=None),
    ),
    "a policy of its own": (
        [annotated(policy="Off")],
        replace(BY_FIELD, policy=Policy.OFF),
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_annotation_wins_over_field_and_field_over_input(name):
    templates, wanted = TOGETHER[name]
    assert declared(templates, FIELD, INPUT) == wanted


def test_version_of_the_input_applies_to_its_engine_only():
    """An Input that says vLLM 0.33.0 says nothing of an SGLang pod."""
    got = identify.identify(
        [pod("reg/x:1", SGLANG_CALL)],
        Declared(default_engine="vLLM", default_version="0.33.0"),
        {},
    )
    assert (got.name, got.version) == ("SGLang", None)


@pytest.mark.parametrize(
    ("templates", "reason", "annotation"),
    [
        ([annotated(tier="a"), annotated(tier="b")], "TierConflict", "tier"),
        ([annotated(policy="Off"), annotated(policy="Optional")], "TierConflict", "policy"),
        ([annotated(tier="a/b/c")], "InvalidInput", "tier"),
        ([annotated(tier="/b")], "InvalidInput", "tier"),
        ([annotated(tier="")], "InvalidInput", "tier"),
        ([annotated(policy="Maybe")], "InvalidInput", "policy"),
        ([annotated(engine="llama.cpp")], "InvalidInput", "engine"),
        ([annotated(engine_version="latest")], "InvalidInput", "engine-version"),
    ],
)
def test_invalid_declarations_are_refused(templates, reason, annotation):
    with pytest.raises(Refused) as refused:
        declared(templates, None, Input())
    assert (refused.value.reason, refused.value.path) == (
        reason,
        f"metadata.annotations[{A}{annotation}]",
    )


QUOTE_OFF = '; write "Off" in quotes: YAML reads Off as false'


@pytest.mark.parametrize("value", [False, "false", "False"])
def test_unquoted_off_in_an_annotation_asks_for_quotes(value):
    with pytest.raises(Refused) as refused:
        declared([annotated(policy=value)], None, Input())
    text = str(value)
    assert refused.value.message == (
        f"must be one of Required, Optional, Off, not {text!r}{QUOTE_OFF}"
    )


@pytest.mark.parametrize("policy", [True, "off", "Maybe"])
def test_only_false_asks_for_quotes(policy):
    with pytest.raises(Refused) as refused:
        declared([annotated(policy=policy)], None, Input())
    assert "quotes" not in refused.value.message


def test_unquoted_off_in_a_field_asks_for_quotes():
    ref = {"name": "chat", "policy": False}
    wanted = f"must be one of Required, Optional, Off, not false{QUOTE_OFF}"
    refused = composite_reference({"spec": {"kvOffloadTierRef": ref}})
    assert isinstance(refused, Refused)
    assert (refused.path, refused.message) == ("spec.kvOffloadTierRef.policy", wanted)
    spec = {"template": {"spec": {"kvOffloadTierRef": ref}}}
    _, problems = parse(ModelDeploymentSpec, spec, "spec")
    assert Problem("spec.template.spec.kvOffloadTierRef.policy", wanted) in problems


@pytest.mark.parametrize(
    ("image", "own"),
    [("vllm/vllm-openai:v0.31.0", "0.31.0"), ("lmcache/vllm-openai:v0.5.6", None)],
)
def test_version_of_an_untagged_image_is_not_part_of_the_identity(image, own):
    """Two images that are said to hold one version may still differ: an identity needs a tag."""
    found = identify.identify([pod(image, VLLM_CALL)], Declared(), {})
    assert (found.version, found.own_version) == ("0.31.0", own)
