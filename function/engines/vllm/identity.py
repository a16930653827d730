"""What determines the bytes or the key of vLLM's blocks, and what an absent input means.

Gathered from what vLLM 0.33 hashes of its configuration (`compute_hash` of its config classes),
without what only changes speed, graphs or rounding. Parallelism cuts blocks by rank, attention
backends lay them out, loaders and overrides change the weights or their use. Where wiring itself
sets an absent flag, the backend says so (`Backend.assumes`).
"""

from function.engines.kind import IdentityInputs

_FLAGS = {
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
_ENV = {
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
}
_SWITCHES = frozenset(
    {
        "--calculate-kv-scales",
        "--disable-sliding-window",
        "--enable-mamba-cache-stochastic-rounding",
        "--kv-sharing-fast-prefill",
        "--use-replayssm",
    }
)
_GONE = frozenset(
    {
        "--calculate-kv-scales",
    }
)

INPUTS = IdentityInputs(
    flags=_FLAGS,
    env=_ENV,
    sources={"HF_ENDPOINT": "https://huggingface.co", "VLLM_USE_MODELSCOPE": "False"},
    switches=_SWITCHES,
    gone=_GONE,
)
