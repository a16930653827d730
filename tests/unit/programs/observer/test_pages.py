"""Pages of metrics: what is read of them, and that nothing in them does harm."""

import random
import time
from pathlib import Path

import pytest

from programs.observer.pages import Page
from tests.unit.programs.observer import sglang, vllm


def test_engine_counters_are_read_with_their_labels() -> None:
    page = Page(vllm(prompt=10, device=3, lookups=7, hits=2, writes=4096, failures=1, blocks=100))
    assert (page.kind, page.model, page.is_engine) == ("vLLM", "llama", True)
    assert page.numbers == {
        "prompt": 10, "device": 3, "lookups": 7, "hits": 2, "writes": 4096, "failed_puts": 1
    }  # fmt: skip
    assert page.device_tokens == 6_400
    assert not page.is_uncached


def test_sources_of_cached_tokens_are_told_apart() -> None:
    page = Page(sglang(prompt=100, device=10, host=20, storage=30))
    assert page.kind == "SGLang"
    assert page.numbers == {"prompt": 100, "device": 10, "hits": 50}


def test_sources_of_every_release_are_told_apart() -> None:
    """SGLang 0.5.5 to 0.5.8 name no source; 0.5.9 to 0.5.19 name the storage's backend."""
    row = "sglang:cached_tokens_total{{cache_source={}}} 7\n"
    for source in ("storage", "storage_mooncake", "storage_file"):
        assert Page(row.format(f'"{source}"')).numbers == {"hits": 7}
    for text in (row.format('"total"'), "sglang:cached_tokens_total 7\n"):
        assert Page(text).numbers == {}
    assert Page(row.format('"storages"')).numbers == {}


def test_counters_of_several_engine_cores_add_up() -> None:
    text = "".join(f'vllm:prompt_tokens_total{{engine="{n}",model_name="m"}} 5\n' for n in range(4))
    assert Page(text).numbers == {"prompt": 20}


def test_blocks_that_were_dropped_are_no_writes() -> None:
    name = "vllm:simple_kv_offload_save_outcomes_total"
    assert Page(f'{name}{{outcome="dropped_cpu_full"}} 9\n').numbers == {}
    assert Page(f'{name}{{outcome="stored"}} 9\n').numbers == {"writes": 9}


def test_the_caches_of_all_ranks_must_turn_over() -> None:
    row = 'sglang:max_total_num_tokens{{dp_rank="{}",tp_rank="{}"}} 1000\n'
    text = "".join(row.format(dp, tp) for dp in range(4) for tp in range(2))
    assert Page(text).device_tokens == 4_000
    assert Page("sglang:max_total_num_tokens 7\n").device_tokens == 7
    info = 'vllm:cache_config_info{{block_size="16",engine="{}",num_gpu_blocks="100"}} 1\n'
    assert Page("".join(map(info.format, range(4)))).device_tokens == 1_600


def test_a_store_says_how_full_it_is() -> None:
    page = Page("master_total_capacity_bytes 200\nmaster_allocated_bytes 50\n")
    assert (page.kind, page.is_engine, page.full) == ("Mooncake", False, 0.25)
    assert Page("lmcache_mp_l1_usage_ratio 0.5\n").full == 0.5


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-5", "x", "1e999", "1e300", ""])
def test_a_value_that_is_no_count_is_skipped(value: str) -> None:
    assert Page(f"vllm:prompt_tokens_total {value}\n").numbers == {}


def test_braces_and_newlines_in_labels_end_nothing() -> None:
    text = 'vllm:prompt_tokens_total{model_name="a}\\"b",engine="0"} 3\n'
    assert Page(text).numbers == {"prompt": 3}
    assert Page(text).model == ""  # no name that a message may show


def test_any_bytes_are_read_in_linear_time() -> None:
    name = "vllm:prompt_tokens_total"
    texts = (f'{name}{{a="' * 40_000, name + '{"' + '\\"' * 400_000, f"{name}{{" * 40_000)
    for hostile in (*texts, f"{name}{{{'a' * 1_000_000}}} 1\n"):
        begun = time.process_time()
        Page(hostile)
        assert time.process_time() - begun < 1.0


def test_random_pages_raise_nothing() -> None:
    draw = random.Random(25)
    whole = vllm(prompt=1, writes=2) + sglang(prompt=3, host=4)
    for _ in range(2_000):
        cut = list(whole)
        for _ in range(draw.randrange(1, 40)):
            cut[draw.randrange(len(cut))] = draw.choice('{}",\\ \n=\x00é0e+')
        page = Page("".join(cut))
        assert all(number >= 0 for number in page.numbers.values())


# Pages of real processes, shortened: what is read of them.
RECORDED = {
    # vLLM 0.33.0 with MooncakeStoreConnector: a prompt of 3,000 tokens five times, its own cache
    # emptied after each.
    "vllm-mooncake": {
        "prompt": 15_000,
        "device": 0,
        "lookups": 15_000,
        "hits": 11_776,
        "writes": 3_014_656,
        "gets": 184,
        "failed_gets": 0,
        "puts": 46,
        "failed_puts": 0,
    },
    # Mooncake's master 0.3.13.post1 beside it.
    "mooncake-master": {"writes": 46, "used": 3_014_656, "capacity": 2**30},
}


@pytest.mark.parametrize("name", RECORDED)
def test_pages_of_real_processes_are_read(name: str) -> None:
    page = Page((Path(__file__).parent / "pages" / f"{name}.txt").read_text())
    assert page.numbers == RECORDED[name]
    if page.is_engine:
        assert (page.model, page.device_tokens, page.is_uncached) == ("tiny", 32_768, False)
