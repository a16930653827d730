"""What determines a cached block's bytes or its key: by engine, with what an absent one means.

Data only. Parallelism cuts blocks by rank, attention backends lay them out, loaders and overrides
change the weights or their use. Gathered from what vLLM 0.33 hashes of its configuration
(`compute_hash` of its config classes) and from SGLang 0.5.23's server arguments, less what only
changes speed, graphs or rounding. Where wiring itself sets an absent flag, the backend says so
(`Backend.assumes`).
"""

from function.contract.engine import SGLANG, VLLM

_VLLM = {
    "--attention-backend": "",
    "--attention-config": "",
    "--block-size": "",
    "--calculate-kv-scales": "",
    "--code-revision": "",
    "--config-format": "auto",
    "--convert": "auto",
    "--cp-kv-cache-interleave-size": "1",
    "--dcp-kv-cache-interleave-size": "1",
    "--decode-context-parallel-size": "1",
    "--disable-sliding-window": "",
    "--dtype": "auto",
    "--enable-mamba-cache-stochastic-rounding": "",
    "--engram-config": "",
    "--hf-config-path": "",
    "--hf-overrides": "",
    "--ignore-patterns": "",
    "--kv-cache-dtype": "auto",
    "--kv-cache-dtype-skip-layers": "",
    "--kv-sharing-fast-prefill": "",
    "--load-format": "auto",
    "--mamba-block-size": "",
    "--mamba-cache-dtype": "auto",
    "--mamba-cache-mode": "",
    "--mamba-ssm-cache-dtype": "auto",
    "--mm-processor-kwargs": "",
    "--model-class-overrides": "",
    "--model-impl": "auto",
    "--model-loader-extra-config": "",
    "--pipeline-parallel-size": "1",
    "--prefill-context-parallel-size": "1",
    "--prefix-caching-hash-algo": "sha256",
    "--quantization": "",
    "--quantization-config": "",
    "--runner": "auto",
    "--spec-method": "",
    "--spec-model": "",
    "--speculative-config": "",
    "--tensor-parallel-size": "1",
    "--use-replayssm": "",
    "--video-pruning-method": "",
    "--video-pruning-rate": "",
    "--worker-cls": "auto",
    "--worker-extension-cls": "",
}
_SGLANG = {
    "--attention-backend": "",
    "--attn-cp-size": "1",
    "--attn-dp-size": "1",
    "--c128-page-size": "",
    "--cp-strategy": "",
    "--custom-weight-loader": "",
    "--dcp-size": "1",
    "--decode-attention-backend": "",
    "--decrypted-config-file": "",
    "--disable-hybrid-swa-memory": "",
    "--dllm-algorithm": "",
    "--dllm-algorithm-config": "",
    "--dsa-decode-backend": "",
    "--dsa-prefill-backend": "",
    "--dsv4-attn-backend": "",
    "--dtype": "auto",
    "--enable-deepseek-v4-fp4-indexer": "",
    "--enable-double-sparsity": "",
    "--enable-dp-attention": "",
    "--enable-dsa-cache-layer-split": "",
    "--enable-dsa-prefill-context-parallel": "",
    "--enable-hisparse": "",
    "--enable-int8-mamba-checkpoint": "",
    "--enable-kv-cache-sharding": "",
    "--enable-linear-replayssm": "",
    "--enable-mamba-cache-stochastic-rounding": "",
    "--enable-nsa-prefill-context-parallel": "",
    "--enable-page-major-kv-layout": "",
    "--enable-prefill-context-parallel": "",
    "--enable-prefill-cp": "",
    "--enable-unified-memory": "",
    "--hicache-io-backend": "kernel",
    "--hicache-mem-layout": "page_first",
    "--hisparse-config": "",
    "--is-embedding": "",
    "--json-model-override-args": "",
    "--kt-amx-method": "",
    "--kt-amx-weight-path": "",
    "--kt-method": "",
    "--kt-weight-path": "",
    "--kv-cache-dtype": "auto",
    "--load-format": "auto",
    "--mamba-ssm-dtype": "",
    "--mm-process-config": "",
    "--model-config-parser": "auto",
    "--model-impl": "auto",
    "--model-loader-extra-config": "",
    "--modelopt-checkpoint-restore-path": "",
    "--modelopt-quant": "",
    "--nsa-decode-backend": "",
    "--nsa-prefill-backend": "",
    "--page-size": "",
    "--pp-size": "1",
    "--prefill-attention-backend": "",
    "--qsa-indexer-dtype": "",
    "--quantization": "",
    "--quantization-param-path": "",
    "--quantize-and-serve": "",
    "--rl-quant-profile": "",
    "--speculative-algorithm": "",
    "--speculative-draft-kv-cache-dtype": "",
    "--speculative-draft-model-path": "",
    "--speculative-draft-model-quantization": "",
    "--speculative-draft-model-revision": "",
    "--torchao-config": "",
    "--tp-size": "1",
}
FLAGS = {VLLM: _VLLM, SGLANG: _SGLANG}

# Those of them that the newest engines have no more.
GONE = frozenset(
    {
        "--calculate-kv-scales",
        "--enable-double-sparsity",
        "--enable-dsa-prefill-context-parallel",
        "--enable-nsa-prefill-context-parallel",
        "--enable-prefill-context-parallel",
        "--kt-amx-method",
        "--kt-amx-weight-path",
        "--nsa-decode-backend",
        "--nsa-prefill-backend",
        "--torchao-config",
    }
)

# Those that take no value.
SWITCHES = frozenset(
    {
        "--calculate-kv-scales",
        "--disable-hybrid-swa-memory",
        "--disable-sliding-window",
        "--enable-deepseek-v4-fp4-indexer",
        "--enable-double-sparsity",
        "--enable-dp-attention",
        "--enable-dsa-cache-layer-split",
        "--enable-dsa-prefill-context-parallel",
        "--enable-hisparse",
        "--enable-int8-mamba-checkpoint",
        "--enable-kv-cache-sharding",
        "--enable-linear-replayssm",
        "--enable-mamba-cache-stochastic-rounding",
        "--enable-nsa-prefill-context-parallel",
        "--enable-page-major-kv-layout",
        "--enable-prefill-context-parallel",
        "--enable-prefill-cp",
        "--enable-unified-memory",
        "--is-embedding",
        "--kv-sharing-fast-prefill",
        "--quantize-and-serve",
        "--use-replayssm",
    }
)

# A flag that counts only beside another: attention's share of a rank is tp / dp with it.
BESIDE = {"--enable-dp-attention": {"--dp-size": "1"}}

ENV = {
    VLLM: {
        "PYTHONHASHSEED": "0",
        "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "1",
        "VLLM_ATTENTION_BACKEND": "",
        "VLLM_HUMMING_ONLINE_QUANT_CONFIG": "",
        "VLLM_KV_CACHE_LAYOUT": "",
        "VLLM_MLA_DISABLE": "0",
        "VLLM_MODEL_REDIRECT_PATH": "",
        "VLLM_ROCM_MUSE_MOE_ONLINE_QUANT": "",
        "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "0",
        "VLLM_SSM_CONV_STATE_LAYOUT": "",
    },
    # Layouts and dtypes of its pools, and weights, that it has no flags for (its environ.py).
    SGLANG: {
        "SGLANG_AITER_KV_CACHE_LAYOUT": "nhd",
        "SGLANG_CPU_QUANTIZATION": "0",
        "SGLANG_DSA_HIP_DISABLE_PRESHUFFLE": "0",
        "SGLANG_DSV4_COMPRESSED_KV_LAYOUT": "auto",
        "SGLANG_DSV4_COMPRESS_STATE_DTYPE": "float32",
        "SGLANG_DSV4_KV_LAYOUT": "v4",
        "SGLANG_DSV4_UNIFIED_KV_FP8": "0",
        "SGLANG_EXTERNAL_MODEL_PACKAGE": "",
        "SGLANG_FP4_IGNORED_LAYERS": "",
        "SGLANG_FP8_IGNORED_LAYERS": "",
        "SGLANG_HIP_DSV41_INDEX_K_PAGE8": "0",
        "SGLANG_INT4_WEIGHT": "0",
        "SGLANG_MAMBA_CONV_DTYPE": "bfloat16",
        "SGLANG_MAMBA_SSM_DTYPE": "",
        "SGLANG_MINICPM_FORCE_DENSE": "0",
        "SGLANG_OPT_MINIMAX_M3_FP8_INDEX_CACHE": "1",
        "SGLANG_OPT_SM120_DIRECT_SWA_KV": "0",
        "SGLANG_USE_HND_KVCACHE": "0",
    },
}

# Where the weights of a repository come from.
SOURCES = {
    VLLM: {"HF_ENDPOINT": "https://huggingface.co", "VLLM_USE_MODELSCOPE": "False"},
    SGLANG: {"HF_ENDPOINT": "https://huggingface.co", "SGLANG_USE_MODELSCOPE": "false"},
}

# Set, nothing is downloaded: a repository is then what the cache directory holds of it.
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
FALSE = frozenset({"", "0", "false", "no", "off"})

# Where downloads are kept: the flag, then the first of these that is set, with what lies below it.
DOWNLOADS = "--download-dir"
CACHES = (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub"))
