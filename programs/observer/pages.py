"""Read /metrics pages: a few counters of engines, agents and stores, as one row of numbers.

Time and memory are linear in the page; what cannot be read is skipped. Names: vLLM 0.33, SGLang
0.5.23, LMCache 0.5.6, Mooncake 0.3.13, read from their own pages.
"""

from __future__ import annotations

import re

MOST = 2 * 1024 * 1024  # bytes of a page that are kept
LONGEST = 32 * 1024 * 1024  # bytes of a page: one of vLLM has about 150 KB for each rank
LARGEST = 1e18  # a number above is no count: sums of larger ones lose their differences

# Field -> the counters that add up to it: (name, labels). Tokens, unless said otherwise. A label's
# value may go on after an underscore: SGLang 0.5.9 to 0.5.19 count storage_mooncake, storage_file.
# prompt: of prompts. device: found in the engine's own cache. lookups: looked up in the tier.
# hits: taken from the tier. writes: written to the tier (tokens, bytes, objects or calls: only
# growth is asked). failures: failed loads and stores (any unit), each of which counts. gets, puts:
# keys; requests: finished ones; some of these fail now and then, by an eviction or a client that
# leaves. capacity, used: bytes of a pool. full: the share of an agent's memory that is used.
COUNTERS: dict[str, tuple[tuple[str, dict[str, str]], ...]] = {
    "prompt": (("vllm:prompt_tokens_total", {}), ("sglang:prompt_tokens_total", {})),
    "device": (
        ("vllm:prefix_cache_hits_total", {}),
        ("sglang:cached_tokens_total", {"cache_source": "device"}),
    ),
    "lookups": (
        ("vllm:external_prefix_cache_queries_total", {}),
        ("lmcache_mp_lookup_requested_tokens_total", {}),
    ),
    "hits": (
        ("vllm:external_prefix_cache_hits_total", {}),
        ("sglang:cached_tokens_total", {"cache_source": "host"}),
        ("sglang:cached_tokens_total", {"cache_source": "storage"}),
        ("lmcache_mp_lookup_hit_tokens_total", {}),
    ),
    "writes": (
        ("vllm:mooncake_store_operation_bytes_total", {"operation": "save_put", "status": "ok"}),
        ("vllm:kv_offload_store_bytes_total", {}),
        ("vllm:kv_offload_total_bytes_total", {"transfer_type": "GPU_to_CPU"}),
        ("vllm:simple_kv_offload_save_outcomes_total", {"outcome": "stored"}),
        ("vllm:nixl_bytes_transferred_sum", {}),
        ("sglang:hicache_backup_tokens_total", {}),
        ("sglang:backuped_tokens_total", {}),
        ("lmcache_mp_num_finished_stores_total", {}),
        ("lmcache_mp_l1_write_chunks_total", {}),
        ("master_put_end_requests_total", {}),
        ("master_batch_put_end_items_total", {}),
    ),
    "failures": (
        ("vllm:mooncake_store_operation_total", {"status": "error"}),
        ("vllm:kv_offload_tiering_damaged_files_total", {}),
        ("vllm:kv_offload_tiering_cascade_job_failures_total", {}),
        ("vllm:kv_offload_tiering_promotion_job_failures_total", {}),
    ),
    "gets": (("vllm:mooncake_store_operation_keys_total", {"operation": "load_get"}),),
    "failed_gets": (
        ("vllm:mooncake_store_operation_failed_keys_total", {"operation": "load_get"}),
    ),
    "puts": (("vllm:mooncake_store_operation_keys_total", {"operation": "save_put"}),),
    "failed_puts": (
        ("vllm:mooncake_store_operation_failed_keys_total", {"operation": "save_put"}),
    ),
    "requests": (("vllm:request_success_total", {}),),
    "failed_requests": (
        ("vllm:nixl_num_failed_transfers_total", {}),
        ("vllm:nixl_num_failed_notifications_total", {}),
        ("vllm:nixl_num_kv_expired_reqs_total", {}),
    ),
    "capacity": (("master_total_capacity_bytes", {}),),
    "used": (("master_allocated_bytes", {}),),
    "full": (("lmcache_mp_l1_usage_ratio", {}),),
}
# Information in labels: name -> the labels that are read.
FACTS = {
    "vllm:cache_config_info": ("block_size", "enable_prefix_caching", "num_gpu_blocks"),
    "vllm:prompt_tokens_total": ("model_name",),
    "sglang:prompt_tokens_total": ("model_name",),
    "sglang:max_total_num_tokens": (),
}
KINDS = {"vllm:": "vLLM", "sglang:": "SGLang", "lmcache_mp_": "LMCache", "master_": "Mooncake"}

_FIELDS: dict[str, list[tuple[str, dict[str, str]]]] = {}
for _field, _rows in COUNTERS.items():
    for _name, _needed in _rows:
        _FIELDS.setdefault(_name, []).append((_field, _needed))
_NAMES = sorted({*_FIELDS, *FACTS})
_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_LINE = re.compile(
    rf'^({"|".join(_NAMES)})(?:\{{((?:[^"}}\n]|{_QUOTED})*)\}})?[ \t]+([^\s]+)', re.MULTILINE
)
# A word is tried from its start alone: a page may be one word.
_LABEL = re.compile(r'(?<!\w)(\w+)="((?:[^"\\\n]|\\.)*)"')
_SERVED = re.compile(r"[\w./:@+-]{1,128}", re.ASCII)
_KIND = re.compile(f"^({'|'.join(KINDS)})", re.MULTILINE)


_STARTS = tuple(name.encode() for name in _NAMES)
_KIND_STARTS = tuple(start.encode() for start in KINDS)


def wanted(lines: list[bytes]) -> list[bytes]:
    """Return those of a page's lines that are read, or one that says whose page it is."""
    found = [line for line in lines if line.startswith(_STARTS)]
    return found or [line for line in lines if line.startswith(_KIND_STARTS)][:1]


class Page:
    """One page: `numbers` by field (a field without a counter is absent), and what runs there."""

    def __init__(self, text: str) -> None:
        found = _KIND.search(text)
        self.kind = KINDS[found[1]] if found else ""
        self.numbers: dict[str, float] = {}
        self.facts: dict[str, str] = {}
        self.models: set[str] = set()
        self.tokens: dict[str, float] = {}  # SGLang's own cache, by rank of data parallelism
        for line in _LINE.finditer(text):  # one at a time: a page may be all lines
            number = _number(line[3])
            if number is not None:
                self._add(line[1], dict(_LABEL.findall(line[2] or "")), number)

    def _add(self, name: str, labels: dict[str, str], number: float) -> None:
        for label in FACTS.get(name, ()):
            if label == "model_name":
                served = labels.get(label, "")
                self.models.add(served if _SERVED.fullmatch(served) else "")
            elif label in labels:
                self.facts[label] = labels[label][:32]
        if name == "sglang:max_total_num_tokens":
            rank = labels.get("dp_rank", "")[:32]
            self.tokens[rank] = max(number, self.tokens.get(rank, 0.0))
        for field, needed in _FIELDS.get(name, ()):
            if all(_is(labels.get(label), value) for label, value in needed.items()):
                self.numbers[field] = self.numbers.get(field, 0.0) + number

    @property
    def is_engine(self) -> bool:
        """Whether an engine wrote the page."""
        return self.kind in ("vLLM", "SGLang")

    @property
    def model(self) -> str:
        """The first of the names under which the engine serves."""
        return min(self.models, default="")

    @property
    def full(self) -> float | None:
        """The share of a store that is used, None where the page says nothing."""
        if self.numbers.get("capacity"):
            return self.numbers.get("used", 0.0) / self.numbers["capacity"]
        return self.numbers.get("full")

    @property
    def device_tokens(self) -> float:
        """Tokens that the engine's own cache holds, 0 where it says nothing.

        vLLM adds the blocks of all ranks up itself.
        """
        blocks = _number(self.facts.get("num_gpu_blocks", "")) or 0.0
        size = _number(self.facts.get("block_size", "")) or 0.0
        return blocks * size or sum(self.tokens.values())

    @property
    def is_uncached(self) -> bool:
        """Whether the engine was started without prefix caching."""
        return self.facts.get("enable_prefix_caching") == "False"


def _is(found: str | None, value: str) -> bool:
    return found is not None and (found == value or found.startswith(f"{value}_"))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= LARGEST else None


# Instead of a page: there was no time to ask.
UNASKED = Page("")
