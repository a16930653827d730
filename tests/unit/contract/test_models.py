"""Model families, and which connectors support them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from function.api.engines import ENGINES, SGLANG, VLLM
from function.contract.advisories import GATED, applicable, family_rows
from function.contract.engine import Engine
from function.contract.models import FAMILIES, UNKNOWN, Model, classify
from function.contract.models.families import ARCHITECTURES, LAYOUTS, NAMES
from function.contract.models.flags import FLAGS
from function.contract.models.support import DECLARE, Support, judge
from kv_offload.docs.backend_rows import model_rows
from tests.unit.contract.model_config import of_config

MODEL_ROWS = tuple(model_rows())

NAME, SERVED = "the model's name", "the served name"


def vllm(model="", env=None, **flags):
    named = {f"--{k.replace('_', '-')}": v for k, v in flags.items()}
    return Engine(VLLM, "0.33.0", model=model, flags=named, env=env or {})


BY_NAME = [
    ("Qwen/Qwen3.6-27B", "hybrid"),
    ("Qwen/Qwen3.8-27B", "hybrid"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "hybrid"),
    ("Qwen/Qwen3-Coder-Next", "hybrid"),
    ("ai21labs/AI21-Jamba-Mini-1.7", "hybrid"),
    ("tiiuae/Falcon-H1-34B-Instruct", "hybrid"),
    ("nvidia/Nemotron-H-56B-Base-8K", "hybrid"),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", "hybrid"),
    ("ibm-granite/granite-4.0-h-small", "hybrid"),
    ("Zyphra/Zamba2-7B", "hybrid"),
    ("state-spaces/mamba-2.8b-hf", "hybrid"),
    ("MiniMaxAI/MiniMax-M1-80k", "hybrid"),
    ("microsoft/Phi-4-mini-flash-reasoning", "hybrid longrope"),
    ("microsoft/Phi-3.5-mini-instruct", "dense longrope"),
    ("/models/Phi-3-mini-128k-instruct", f"longrope {UNKNOWN}"),
    ("LiquidAI/LFM2-8B-A1B", "hybrid"),
    ("pfnet/plamo-2-8b", "hybrid"),
    ("inclusionAI/Ring-flash-linear-2.0", "hybrid"),
    ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "hybrid mla"),
    ("moonshotai/Kimi-K3", "hybrid mla"),
    ("moonshotai/Kimi-K2-Instruct", "mla"),
    ("moonshotai/Kimi-K2.5", "mla multimodal"),
    ("deepseek-ai/DeepSeek-R1", "mla"),
    ("deepseek-ai/DeepSeek-V3.1", "mla"),
    ("deepseek-ai/DeepSeek-V3.2", "mla sparse"),
    ("deepseek-ai/DeepSeek-V4-Flash", "mla sparse"),
    ("zai-org/GLM-5.2", "mla sparse"),
    ("zai-org/GLM-5.3", "mla sparse"),
    ("zai-org/GLM-5.3-Flash", "hybrid mla sparse"),
    ("zai-org/GLM-4.7-Flash", "mla"),
    ("MiniMaxAI/MiniMax-M3", "sparse"),
    ("openai/gpt-oss-120b", "sliding"),
    ("google/gemma-2-9b-it", "sliding"),
    ("google/gemma-3-27b-it", "multimodal sliding"),
    ("mistralai/Mistral-7B-v0.1", "sliding"),
    ("mistralai/Mistral-7B-Instruct-v0.2", "dense"),
    ("meta-llama/Llama-3.1-8B-Instruct", "dense"),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "dense"),
    ("Qwen/Qwen3-8B", "dense"),
    ("Qwen/Qwen3-30B-A3B", "dense"),
    ("RedHatAI/Qwen3-32B-FP8-dynamic", "dense"),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "dense multimodal"),
    ("Qwen/Qwen3-Embedding-8B", "dense pooling"),
    ("MiniMaxAI/MiniMax-M2", "dense"),
    ("openai/whisper-large-v3", f"encoder {UNKNOWN}"),
    ("meta-llama/Llama-3.2-11B-Vision-Instruct", f"encoder {UNKNOWN}"),
    ("meta-llama/Llama-3.2-3B-Instruct", "dense"),
    ("BAAI/bge-m3", f"encoder pooling {UNKNOWN}"),
    ("BAAI/bge-large-en-v1.5", f"encoder pooling {UNKNOWN}"),
    ("BAAI/bge-multilingual-gemma2", "sliding"),
    ("intfloat/e5-mistral-7b-instruct", "dense"),
    ("intfloat/multilingual-e5-large", f"encoder pooling {UNKNOWN}"),
    ("openai/clip-vit-large-patch14-336", f"encoder pooling {UNKNOWN}"),
    ("black-forest-labs/FLUX.2-klein-4B", f"pipeline {UNKNOWN}"),
    ("Qwen/Qwen-Image", f"pipeline {UNKNOWN}"),
    ("zai-org/GLM-4.6", "dense"),
    # A path may say that care is needed, never that it is not.
    ("/models/Qwen3.6-27B", "hybrid"),
    ("/models/qwen3-next/", "hybrid"),
    ("/qwen3-next/weights", UNKNOWN),
    ("/mnt/models", UNKNOWN),
    ("/models/llama-3", UNKNOWN),
    ("./Qwen3-8B", UNKNOWN),
    ("/models/Qwen2.5-VL-7B", f"multimodal {UNKNOWN}"),
    ("acme/secret-sauce", UNKNOWN),
    ("", UNKNOWN),
]


def test_a_declared_layout_leaves_longrope_to_the_name() -> None:
    asked = vllm("microsoft/Phi-3-mini-128k-instruct")
    assert classify(asked, frozenset({"dense"})).families == {"dense", "longrope"}


@pytest.mark.parametrize(("model", "families"), BY_NAME)
def test_families_by_model_name(model, families):
    assert classify(vllm(model)).families == frozenset(families.split())


WHOLE = [
    (vllm("/mnt/models", mamba_cache_mode="align"), "", {"hybrid": "--mamba-cache-mode"}),
    (vllm("/mnt/models", enable_mamba_cache_stochastic_rounding=None), "",
     {"hybrid": "--enable-mamba-cache-stochastic-rounding"}),
    (vllm("/mnt/models", speculative_config='{"method":"mtp"}'), "",
     {"speculative": "--speculative-config", UNKNOWN: ""}),
    (vllm("Qwen/Qwen3-8B", speculative_config="{}"), "",
     {"speculative": "--speculative-config", "dense": NAME}),
    (vllm("Qwen/Qwen3-8B", runner="pooling"), "", {"pooling": "--runner", "dense": NAME}),
    (vllm("Qwen/Qwen3-8B", runner="generate"), "", {"dense": NAME}),
    (vllm("/m", hf_overrides='{"architectures":["Qwen3NextForCausalLM"]}'), "",
     {"hybrid": "--hf-overrides"}),
    (vllm("/m", hf_overrides="{broken"), "", {UNKNOWN: ""}),
    (vllm("/m", attention_backend="FLASHMLA"), "", {"mla": "--attention-backend"}),
    (vllm("/m", {"VLLM_ATTENTION_BACKEND": "CUTLASS_MLA"}), "", {"mla": "--attention-backend"}),
    (vllm("/mnt/models", served_model_name="Qwen/Qwen3.6-27B"), "", {"hybrid": SERVED}),
    (vllm("/mnt/models"), "dense", {"dense": "declared"}),
    (vllm("/mnt/models"), "hybrid multimodal", {"hybrid": "declared", "multimodal": "declared"}),
    # The flags prove more than was declared, and a name does not contradict it.
    (vllm("Qwen/Qwen3-8B", mamba_block_size="8"), "dense",
     {"dense": "declared", "hybrid": "--mamba-block-size"}),
    (vllm("Qwen/Qwen3-8B"), "hybrid", {"hybrid": "declared"}),
    (vllm("/mnt/models"), "multimodal", {"multimodal": "declared", UNKNOWN: ""}),
    (Engine(SGLANG, model="/m", flags={"--max-mamba-cache-size": "4"}), "",
     {"hybrid": "--max-mamba-cache-size"}),
    (Engine(SGLANG, model="/m", flags={"--is-embedding": None}), "",
     {"pooling": "--is-embedding", UNKNOWN: ""}),
    (vllm("$(MODEL_PATH)", served_model_name="vllm-model", tokenizer_mode="deepseek_v4"), "",
     {"mla": "--tokenizer-mode", "sparse": "--tokenizer-mode"}),
    (vllm("Qwen/Qwen2.5-Omni-7B", omni=None), "",
     {"pipeline": "--omni", "dense": NAME, "multimodal": NAME}),
    (Engine(SGLANG, model="/m", flags={"--num-gpus": "1"}), "",
     {"pipeline": "--num-gpus", UNKNOWN: ""}),
    (Engine(SGLANG, model="/m", image="reg/sglang:v0.5.6-diffusion-cuda129"), "",
     {"pipeline": "the image's tag", UNKNOWN: ""}),
    (Engine(SGLANG, model="/m", flags={"--limit-mm-per-prompt": "1"}), "", {UNKNOWN: ""}),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "declared", "because"), WHOLE)
def test_families_and_their_evidence(engine, declared, because):
    found = classify(engine, frozenset(declared.split()))
    assert dict(found.because) == because
    assert found.families == frozenset(because)
    assert found.known is (UNKNOWN not in because)


@pytest.mark.parametrize(
    ("config", "families"),
    [
        ({"architectures": ["Qwen3NextForCausalLM"]}, "hybrid"),
        ({"architectures": ["LlamaForCausalLM"]}, "dense"),
        ({"architectures": ["NewForCausalLM"], "kv_lora_rank": 512}, "mla"),
        ({"architectures": ["NewForConditionalGeneration"], "vision_config": {},
          "text_config": {"layer_types": ["linear_attention", "full_attention"]}},
         "hybrid multimodal"),
        ({"layer_types": ["sliding_attention"]}, "sliding"),
        ({"architectures": ["NewForCausalLM"]}, ""),
        ({"architectures": "LlamaForCausalLM", "layer_types": 5}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_families_by_model_config(config, families):
    assert of_config(config) == frozenset(families.split())


def answered(connector, engine, version, model):
    """What the rows and the advisories say."""
    found = [a for a in applicable(connector, Engine(engine, version)) if a.action in GATED]
    rows = (*MODEL_ROWS, *family_rows(found, connector, Engine(engine, version)))
    return judge(rows, connector, engine, Version(version) if version else None, model)


def of(*families):
    return Model(frozenset(families), dict.fromkeys(families, NAME))


@pytest.mark.parametrize(
    ("connector", "engine", "version", "families", "support", "says"),
    [
        ("LMCacheMPConnector", VLLM, "0.33.0", ("dense",), Support.WORKS, ""),
        ("LMCacheMPConnector", VLLM, "0.33.0", ("hybrid",), Support.REFUSED, "LMCache 4247"),
        ("LMCacheMPConnector", VLLM, None, ("hybrid", "mla"), Support.REFUSED, "LMCache 4247"),
        ("LMCacheMPConnector", VLLM, "0.33.0", ("mla",), Support.WORKS, ""),
        ("LMCacheMPConnector", VLLM, "0.33.0", ("mla", "sparse"), Support.CAUTION, "one by one"),
        ("LMCacheMPConnector", VLLM, "0.33.0", ("sliding",), Support.WORKS, ""),
        ("LMCacheMPConnector", VLLM, "0.33.0", (UNKNOWN,), Support.ASK, "not serve hybrid ones"),
        ("LMCacheConnectorV1", VLLM, "0.33.0", ("hybrid",), Support.REFUSED, "fails at start"),
        ("LMCacheConnectorV1", VLLM, "0.33.0", ("sliding",), Support.CAUTION, "NodeServer"),
        ("LMCacheConnectorV1", VLLM, "0.33.0", (UNKNOWN,), Support.ASK, "hybrid, sparse"),
        ("MooncakeStoreConnector", VLLM, "0.23.0", ("hybrid",), Support.REFUSED, "vllm 49360"),
        ("MooncakeStoreConnector", VLLM, "0.21.0", ("hybrid",), Support.REFUSED, "at start"),
        ("MooncakeStoreConnector", VLLM, "0.33.0", ("hybrid",), Support.CAUTION, "vllm 56972"),
        ("MooncakeStoreConnector", VLLM, "0.33.0", (UNKNOWN,), Support.WORKS, ""),
        ("MooncakeStoreConnector", VLLM, None, (UNKNOWN,), Support.ASK, "not serve hybrid ones"),
        ("OffloadingConnector", VLLM, "0.20.2", ("hybrid",), Support.REFUSED, "0.21 or newer"),
        ("OffloadingConnector", VLLM, "0.27.1", ("hybrid",), Support.REFUSED, "vllm 51094"),
        ("OffloadingConnector", VLLM, "0.33.0", ("hybrid",), Support.CAUTION, "vllm 46453"),
        ("OffloadingConnector", VLLM, "0.33.0", (UNKNOWN,), Support.WORKS, ""),
        ("NixlConnector", VLLM, "0.29.0", ("hybrid",), Support.CAUTION, "vllm 52234"),
        ("NixlConnector", VLLM, "0.30.0", ("hybrid",), Support.WORKS, ""),
        (
            "NixlConnector",
            VLLM,
            "0.33.0",
            ("hybrid", "speculative"),
            Support.CAUTION,
            "untested upstream",
        ),
        ("NixlConnector", VLLM, "0.33.0", ("dense", "speculative"), Support.WORKS, ""),
        ("LMCacheMPConnector", SGLANG, "0.5.20", ("sliding",), Support.REFUSED, "0.5.21"),
        ("LMCacheMPConnector", SGLANG, "0.5.23", ("hybrid",), Support.CAUTION, "untested upstream"),
        ("HiCache", SGLANG, "0.5.12", ("sliding",), Support.REFUSED, "0.5.13"),
        ("HiCache", SGLANG, "0.5.15", ("sliding",), Support.WORKS, ""),
        ("HiCache", SGLANG, "0.5.10", ("mla", "sparse"), Support.REFUSED, "sglang PR 22811"),
        ("HiCache", SGLANG, "0.5.23", ("mla", "sparse"), Support.CAUTION, "sglang PR 38212"),
        ("HiCache/file", SGLANG, "0.5.23", ("mla", "sparse"), Support.REFUSED, "KVO-2026-082"),
        ("HiCache/mooncake", SGLANG, "0.5.16", ("sparse",), Support.REFUSED, "Mooncake 2236"),
        ("HiCache/mooncake", SGLANG, "0.5.17", ("sparse",), Support.REFUSED, "sglang PR 38212"),
    ],
)
def test_connector_support_by_family(connector, engine, version, families, support, says):
    found, messages = answered(connector, engine, version, of(*families))
    assert found is support
    assert says in " ".join(messages) and bool(messages) is bool(says)


def test_messages_name_their_source():
    model = classify(vllm("Qwen/Qwen3.6-27B", mamba_cache_mode="align"))
    answer = judge(MODEL_ROWS, "LMCacheConnectorV1", VLLM, Version("0.33.0"), model)
    assert answer == (
        Support.REFUSED,
        ("the model is hybrid (hybrid, by --mamba-cache-mode): LMCache inside the engine turns "
         "vLLM's hybrid memory allocator off, and the engine fails at start. Use a tier of another "
         "backend, or none",),
    )  # fmt: skip
    asked = answered("LMCacheMPConnector", VLLM, None, classify(vllm("/mnt/models")))
    assert asked == (
        Support.ASK,
        ("nothing tells what kind of model this is, and LMCacheMPConnector does not serve hybrid "
         f"ones; {DECLARE}",),
    )  # fmt: skip


@pytest.mark.parametrize("connector", sorted({row.connector for row in MODEL_ROWS}))
@pytest.mark.parametrize("engine", [(VLLM, "0.30.0"), (VLLM, "0.33.0"), (SGLANG, "0.5.23")])
def test_question_names_only_what_is_refused(connector, engine):
    """A layout that works alone is not named alone."""
    name, version = engine
    (asked,) = answered(connector, name, version, Model(frozenset({UNKNOWN}), {}))[1] or ("",)
    if "does not serve " not in asked:
        return
    listed = asked.partition("does not serve ")[2].partition(";")[0]
    for part in listed.split(" or "):
        alone = part.removesuffix(" ones").split(", ")
        both = [part.removeprefix("models that are ").removesuffix(" at once").split(" and ")]
        for families in [[family] for family in alone] if part.endswith(" ones") else both:
            assert answered(connector, name, version, of(*families))[0] is Support.REFUSED, part


def test_question_names_layouts_that_are_refused_together():
    unknown = classify(vllm("/mnt/models"))
    (asked,) = answered("OffloadingConnector", VLLM, "0.30.0", unknown)[1]
    assert "does not serve models that are hybrid and sparse at once; " in asked


def test_rows_are_complete():
    for row in MODEL_ROWS:
        assert row.engine in ENGINES and row.source and row.families <= set(FAMILIES)
        assert row.message and row.support in (Support.CAUTION, Support.REFUSED)
        SpecifierSet(row.engines)
    for row in (*NAMES, *ARCHITECTURES):
        assert row.source and row.families and row.families <= set(FAMILIES)
    for row in FLAGS:
        assert row.source and row.engine in ENGINES and row.family in FAMILIES  # type: ignore[attr-defined]
    names = [name for row in ARCHITECTURES for name in row.names]
    assert len(names) == len(set(names))
    assert {f for row in (*NAMES, *ARCHITECTURES) for f in row.families} >= set(LAYOUTS)  # type: ignore[attr-defined]


names = st.text("abcqwen3next-./_~$ ", max_size=30)


@given(names, st.dictionaries(st.sampled_from([f.name for f in FLAGS]), names), names)
def test_never_raises(model, flags, overrides):
    for name in ENGINES:
        engine = Engine(name, model=model, flags={**flags, "--hf-overrides": overrides})
        found = classify(engine)
        assert found.families <= {*FAMILIES, UNKNOWN}
        assert found.known is bool(found.families & set(LAYOUTS))
