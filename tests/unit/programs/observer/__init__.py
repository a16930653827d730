"""Pages as engines write them, for the observer's tests."""


def vllm(
    *,
    prompt: float = 0,
    device: float = 0,
    lookups: float = 0,
    hits: float = 0,
    writes: float | None = None,
    failures: float = 0,
    blocks: int = 0,
    caching: bool = True,
    model: str = "llama",
) -> str:
    """A page of vLLM with MooncakeStoreConnector, shortened."""
    labels = f'engine="0",model_name="{model}"'
    rows = {
        f"vllm:prompt_tokens_total{{{labels}}}": prompt,
        f"vllm:prompt_tokens_created{{{labels}}}": 1.7e9,
        f"vllm:prefix_cache_hits_total{{{labels}}}": device,
        f"vllm:external_prefix_cache_queries_total{{{labels}}}": lookups,
        f"vllm:external_prefix_cache_hits_total{{{labels}}}": hits,
        f'vllm:cache_config_info{{block_size="64",enable_prefix_caching="{caching}",'
        f'engine="0",num_gpu_blocks="{blocks}"}}': 1,
    }
    operation = f'{labels},operation="save_put"'
    if writes is not None:
        rows[f'vllm:mooncake_store_operation_bytes_total{{{operation},status="ok"}}'] = writes
    if failures:
        rows[f"vllm:mooncake_store_operation_failed_keys_total{{{operation}}}"] = failures
    return "".join(f"{name} {value}\n" for name, value in rows.items())


def sglang(*, prompt: float, device: float = 0, host: float = 0, storage: float = 0) -> str:
    """A page of SGLang with HiCache, shortened."""
    labels = 'engine_type="unified",model_name="llama"'
    sources = {"device": device, "host": host, "storage": storage}
    cached = "".join(
        f'sglang:cached_tokens_total{{cache_source="{source}",{labels}}} {value}\n'
        for source, value in sources.items()
        if value
    )
    size = f"sglang:max_total_num_tokens{{{labels}}} 1000\n"
    return f"sglang:prompt_tokens_total{{{labels}}} {prompt}\n{size}{cached}"
