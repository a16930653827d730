"""Families of models: what their layers keep between tokens, which is what a KV tier moves.

By architecture, the rows are what vLLM 0.33.0's own classes say: a class that is `IsHybrid` or
`IsAttentionFree`, `is_deepseek_mla` of its configuration, layers with `per_layer_sliding_window`
(tests/conformance holds the hybrid rows to the real classes). By name they are the published
repositories of those architectures. A name is a pattern over the model string, lower case, `_` and
`.` read as `-`.
"""

import re
from dataclasses import dataclass

DENSE = "dense"  # one kind of attention, one KV cache group
HYBRID = "hybrid"  # recurrent state (mamba, GDN, KDA, linear attention) beside attention
MLA = "mla"  # latent attention: the same bytes on every tensor-parallel rank
SPARSE = "sparse"  # attention by an index (DSA and its like): KV cache groups of several shapes
SLIDING = "sliding"  # a window on some layers
MULTIMODAL = "multimodal"
SPECULATIVE = "speculative"
POOLING = "pooling"
ENCODER = "encoder"  # attends in both directions, or across: a prefix says nothing of its blocks
PIPELINE = "pipeline"  # diffusion, or several stages of an engine each
UNKNOWN = "unknown"

# What the layers are, and what is done with the model beside it.
LAYOUTS = (DENSE, HYBRID, MLA, SPARSE, SLIDING)
USES = (MULTIMODAL, SPECULATIVE, POOLING, ENCODER, PIPELINE)
FAMILIES = (*LAYOUTS, *USES)


@dataclass(frozen=True)
class Name:
    """Models whose string matches `pattern` (search) are of `families`."""

    pattern: str
    families: frozenset[str]
    source: str


@dataclass(frozen=True)
class Architectures:
    families: frozenset[str]
    names: frozenset[str]
    source: str


def _of(*families: str) -> frozenset[str]:
    return frozenset(families)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLASSES = "vLLM 0.33.0: classes of its registry that are IsHybrid"
_REMOVED = "vLLM's registry before 0.24 (0.27 for Plamo2, 0.11 for Phi-4-flash)"
_MLA_TYPES = "vLLM 0.33.0: is_deepseek_mla of the model's configuration"
_WINDOW = "vLLM 0.33.0: the model's layers take per_layer_sliding_window"
_LMCACHE = "LMCache 0.5.6's recipes and docs/source/mp/hybrid_models.rst"
_UNIFORM = "LMCache 0.5.6's recipes/uniform_attention_models.rst"

ARCHITECTURES: tuple[Architectures, ...] = (
    Architectures(
        _of(DENSE),
        _names(
            """Glm4MoeForCausalLM LlamaForCausalLM MiniMaxM2ForCausalLM
            MistralForCausalLM MixtralForCausalLM OPTForCausalLM Phi3ForCausalLM
            Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM
            Qwen3MoeForCausalLM"""
        ),
        _UNIFORM,
    ),
    Architectures(
        _of(HYBRID),
        _names(
            """AliceAIForCausalLM BailingMoeV2_5ForCausalLM BailingMoeV3ForCausalLM
            BailingMoeV3VLForConditionalGeneration ClefFlashForJointSchema
            ColBERTLfm2Model ColQwen3_5 FalconH1ForCausalLM Glm5NextForCausalLM
            Glm5NextForConditionalGeneration GraniteMoeHybridForCausalLM
            InternS2MobiusForConditionalGeneration
            InternS2PreviewForConditionalGeneration JambaForCausalLM
            JambaForSequenceClassification KimiK3ForConditionalGeneration
            KimiLinearForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM
            Lfm2VlForConditionalGeneration MiniCPMOcrForConditionalGeneration
            MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration
            NemotronHForCausalLM NemotronHPuzzleForCausalLM
            NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2
            NemotronH_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3
            OlmoHybridForCausalLM Qwen3NextForCausalLM Qwen3_5ForCausalLM
            Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM
            Qwen3_5MoeForConditionalGeneration Qwen4ExpForCausalLM
            Qwen4ExpForConditionalGeneration Zamba2ForCausalLM"""
        ),
        _CLASSES,
    ),
    Architectures(
        _of(HYBRID),
        _names("""FalconMambaForCausalLM Mamba2ForCausalLM MambaForCausalLM"""),
        "vLLM 0.33.0: classes of its registry that are IsAttentionFree",
    ),
    Architectures(
        _of(HYBRID),
        _names(
            """BambaForCausalLM MiniMaxForCausalLM MiniMaxM1ForCausalLM
            MiniMaxText01ForCausalLM MiniMaxVL01ForConditionalGeneration
            Phi4FlashForCausalLM Plamo2ForCausalLM"""
        ),
        _REMOVED,
    ),
    Architectures(
        _of(MLA),
        _names(
            """AXK1ForCausalLM DeepseekV2ForCausalLM DeepseekV3ForCausalLM
            Glm4MoeLiteForCausalLM KimiK25ForConditionalGeneration
            LongcatFlashForCausalLM MistralLarge3ForCausalLM
            PanguUltraMoEForCausalLM SarvamMLAForCausalLM"""
        ),
        _MLA_TYPES,
    ),
    Architectures(
        _of(MLA, SPARSE),
        _names(
            """DeepseekV32ForCausalLM DeepseekV4ForCausalLM
            DeepseekV4ForConditionalGeneration DeepseekV41ForCausalLM
            GlmMoeDsaForCausalLM"""
        ),
        f"{_MLA_TYPES}; {_LMCACHE}",
    ),
    Architectures(
        _of(SPARSE),
        _names("""MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration"""),
        _LMCACHE,
    ),
    Architectures(
        _of(SLIDING),
        _names(
            """Cohere2ForCausalLM Exaone4ForCausalLM Gemma2ForCausalLM
            Gemma3ForCausalLM Gemma3ForConditionalGeneration
            Gemma3nForConditionalGeneration Gemma4ForCausalLM
            Gemma4ForConditionalGeneration GptOssForCausalLM
            Llama4ForConditionalGeneration MiMoV2FlashForCausalLM Olmo3ForCausalLM
            Plamo3ForCausalLM Step3p5ForCausalLM"""
        ),
        _WINDOW,
    ),
)

# The first row that matches decides: the particular before the general.
NAMES: tuple[Name, ...] = (
    Name(r"qwen3-next|qwen3-coder-next", _of(HYBRID), _CLASSES),
    Name(r"qwen3-[568](-|$)", _of(HYBRID), f"{_CLASSES}; {_LMCACHE}"),
    Name(r"qwen4-exp", _of(HYBRID), _CLASSES),
    Name(r"kimi-(linear|k3)", _of(HYBRID, MLA), f"{_CLASSES}; {_LMCACHE}"),
    Name(r"kimi-k2-5|kimi-k25", _of(MLA, MULTIMODAL), _MLA_TYPES),
    Name(r"kimi-k2|kimi-vl|moonlight", _of(MLA), _MLA_TYPES),
    Name(r"jamba|bamba|zamba|falcon-?mamba|codestral-?mamba|(^|[/-])mamba2?(-|$)", _of(HYBRID),
         f"{_CLASSES}; {_REMOVED}"),
    Name(r"falcon-h1|olmo-?hybrid", _of(HYBRID), _CLASSES),
    Name(r"nemotron-h(-|$)|nemotron-3|nemotron-nano-(9b|12b)-v2|nano-v2", _of(HYBRID), _CLASSES),
    Name(r"granite-4-\d+-h(-|$)|granite-4-\d+-(h-)?(tiny|small)", _of(HYBRID), _CLASSES),
    Name(r"lfm2", _of(HYBRID), _CLASSES),
    Name(r"minimax-(m1|text-01|vl-01)|plamo-?2|phi-?4-mini-flash", _of(HYBRID), _REMOVED),
    Name(r"(ring|ling)-[a-z0-9-]*linear|(ring|ling)-(flash-|mini-)?2-5", _of(HYBRID), _CLASSES),
    Name(r"minicpm-?v-4-[67]", _of(HYBRID, MULTIMODAL), _CLASSES),
    Name(r"glm-?5-next", _of(HYBRID, MLA), _CLASSES),
    Name(r"deepseek-?v(3-2|4)", _of(MLA, SPARSE), f"{_MLA_TYPES}; {_LMCACHE}"),
    Name(r"deepseek-?(v2|v3|r1|coder-v2|prover-v2)(?!.*distill)", _of(MLA), _MLA_TYPES),
    Name(r"glm-?5(-|$)", _of(MLA, SPARSE), f"{_MLA_TYPES}; {_LMCACHE}"),
    Name(r"glm-?4-7-flash", _of(MLA), _MLA_TYPES),
    Name(r"longcat-flash|mistral-large-3|minicpm-?3", _of(MLA), _MLA_TYPES),
    Name(r"minimax-m3", _of(SPARSE), _LMCACHE),
    Name(r"gemma-?[34]", _of(SLIDING, MULTIMODAL), f"{_WINDOW}; {_LMCACHE}"),
    Name(r"gemma-?2|vaultgemma", _of(SLIDING), _WINDOW),
    Name(r"gpt-oss", _of(SLIDING), f"{_WINDOW}; {_LMCACHE}"),
    Name(r"mistral-7b-(instruct-)?v0-1", _of(SLIDING), "sliding_window of its config.json"),
    Name(r"llama-?4|mimo-v2|step-3-5|olmo-?3|exaone-?4|command-(r7b|a)", _of(SLIDING), _WINDOW),
    Name(r"whisper|nemotron-parse|(^|-)(bart|t5|florence-2)(-|$)|moss-?transcribe|"
         r"llama-3-2-\d+b-vision", _of(ENCODER),
         "encoder and decoder: vLLM's classes that are encoder-decoder"),
    Name(r"bge-(m3|small|base|large|reranker-(v2-m3|base|large))|(^|-)(multilingual-)?e5-(small|base"
         r"|large)|clip-vit|siglip|(distil|ro|moder|xlm-ro|jina-)?bert(a)?(-|$)|all-minilm|gte-"
         r"(small|base|large)|nomic-embed-text|snowflake-arctic-embed-(xs|s|m|l)(-|$)",
         _of(ENCODER, POOLING), "encoders: the models' cards"),
    Name(r"flux-?[12]|qwen-image|(^|-)wan-?2|hunyuan-?(video|image|dit)|stable-?diffusion|sdxl|"
         r"z-image|ltx-?(video|2)|cogvideo|glm-image", _of(PIPELINE),
         "diffusers pipelines of SGLang 0.5.23 and vLLM-Omni"),
    Name(r"embed|rerank|reward|bge-|gte-", _of(DENSE, POOLING), "the models' cards"),
    Name(r"qwen(2|2-5|3)-(vl|omni|audio)|internvl|pixtral|llava", _of(DENSE, MULTIMODAL),
         "LMCache 0.5.6's recipes/multimodal_models.rst"),
    Name(r"llama-?[23]|deepseek-r1-distill", _of(DENSE), _UNIFORM),
    Name(r"qwen-?(1-5|2|2-5|3)(-|$)|qwq|qwen3-coder", _of(DENSE), _UNIFORM),
    Name(r"mistral-7b|mixtral|devstral|ministral-3|mistral-(nemo|small)", _of(DENSE), _UNIFORM),
    Name(r"phi-?(3|3-5|4)(-|$)", _of(DENSE), _UNIFORM),
    Name(r"minimax-m2", _of(DENSE), _UNIFORM),
    Name(r"glm-?4-[567](-|$)", _of(DENSE), "Glm4MoeForCausalLM of vLLM 0.33.0: plain attention"),
    Name(r"opt-\d+m|gpt2|tinyllama|smollm", _of(DENSE), "one kind of attention"),
)  # fmt: skip

_COMPILED = tuple((re.compile(row.pattern), row) for row in NAMES)
_JOINED = re.compile(r"[._]")


def of_name(model: str) -> Name | None:
    """The row of a model string, e.g. "Qwen/Qwen3.6-27B"; None where no row matches.

    Of a path the last element counts: a folder above it says nothing.
    """
    text = _JOINED.sub("-", model.strip().rstrip("/").lower()[-256:])
    text = text.rpartition("/")[2] or text
    return next((row for pattern, row in _COMPILED if pattern.search(text)), None)


def of_architecture(name: str) -> Architectures | None:
    """The row of an entry of `architectures` in a config.json."""
    return next((row for row in ARCHITECTURES if name in row.names), None)
