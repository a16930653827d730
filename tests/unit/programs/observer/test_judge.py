"""The judgement of one engine, as tables of pages over time."""

from collections.abc import Iterable

import pytest

from programs.observer.judge import Memory, judge
from programs.observer.pages import Page
from tests.unit.programs.observer import sglang, vllm

STEP = 15.0  # seconds between two rounds


def states(pages: Iterable[str | None], **more: object) -> list[str]:
    """The state after each round, with its cause."""
    memory, found = Memory(), []
    for number, text in enumerate(pages):
        page = None if text is None else Page(text)
        memory = judge(memory, page, number * STEP, **more)  # type: ignore[arg-type]
        found.append(f"{memory.state} {memory.cause}".strip())
    return found


def test_an_engine_without_traffic_is_idle() -> None:
    assert states([vllm()] * 3) == ["Idle"] * 3


def test_an_engine_stores_and_then_hits() -> None:
    pages = [
        vllm(),
        vllm(prompt=3_000, lookups=3_000, writes=100),
        vllm(prompt=6_000, lookups=6_000, hits=3_000, writes=100),
    ]
    assert states(pages) == ["Idle", "Storing", "Hitting"]


def test_hits_survive_pauses_and_end_after_an_hour_without_traffic() -> None:
    busy = vllm(prompt=6_000, lookups=6_000, hits=3_000, writes=100)
    found = states([vllm(), *[busy] * 300])
    assert found[1] == found[200] == "Hitting"
    assert found[-1] == "Idle"


@pytest.mark.parametrize("rounds", [1, 4])
def test_prompts_that_nobody_looks_up_are_silent(rounds: int) -> None:
    pages = [vllm(prompt=1_000 * n, device=0) for n in range(1, 5)]
    assert states(pages)[-1] == "Silent NoLookups"
    assert states(pages)[0] == "Storing"


def test_prompts_found_on_the_device_need_no_lookup() -> None:
    pages = [vllm(prompt=10_000 * n, device=9_990 * n) for n in range(1, 5)]
    assert states(pages) == ["Storing"] * 4


def test_a_long_prompt_is_counted_after_its_lookup() -> None:
    """vLLM counts lookups at admission, and a prompt with its first token."""
    short = {"prompt": 1_000, "lookups": 1_000}
    long = [vllm(prompt=1_000, lookups=101_000)] * 3
    done = [vllm(prompt=101_000, lookups=101_000)] * 80
    assert set(states([vllm(**short), *long, *done])) == {"Storing"}
    mostly_there = vllm(prompt=1_000, device=90_000, lookups=11_000)
    after = vllm(prompt=101_000, device=90_000, lookups=11_000)
    assert set(states([vllm(**short), mostly_there, after])) == {"Storing"}


def test_lookups_that_stop_are_silent_after_ten_minutes() -> None:
    pages = [vllm(prompt=1_000 * n, lookups=min(3_000, 1_000 * n)) for n in range(1, 60)]
    found = states(pages)
    assert found[40] == "Storing"
    assert found[-1] == "Silent NoLookups"


def test_an_engine_without_prefix_caching_that_has_hits_is_not_silent() -> None:
    page = vllm(prompt=9_000, lookups=9_000, hits=4_000, caching=False)
    assert states([page] * 9) == ["Hitting"] * 9
    prefill = vllm(prompt=9_000, lookups=9_000, caching=False)
    assert states([prefill] * 9, pairs=True) == ["Storing"] * 9


def test_no_prefix_caching_is_the_cause_where_nothing_is_looked_up_or_written() -> None:
    """Of 0.33 the simple connector turns itself off, and the others hit without it."""
    assert states([vllm(caching=False)]) == ["Idle"]
    assert states([vllm(prompt=3_000, caching=False)])[-1] == "Silent PrefixCachingOff"
    pages = [vllm(prompt=5_000 * n, lookups=5_000 * n, caching=False) for n in range(1, 6)]
    assert [*dict.fromkeys(states(pages))] == ["Storing", "Silent PrefixCachingOff"]
    pages = [
        vllm(prompt=5_000 * n, lookups=5_000 * n, writes=n, caching=False) for n in range(1, 9)
    ]
    assert set(states(pages)) == {"Storing"}


def looked_up(number: int, **more: float) -> str:
    """Prompts of 5,000 tokens a round, 1,000 of them found on the device."""
    return vllm(prompt=5_000 * number, device=1_000 * number, lookups=4_000 * number, **more)  # type: ignore[arg-type]


def test_written_blocks_that_are_never_found_are_never_read() -> None:
    found = states([looked_up(n, writes=10.0 * n, blocks=50) for n in range(1, 10)])
    assert found[:4] == ["Storing"] * 4
    assert found[-1] == "NeverRead"


def test_never_read_waits_until_the_device_has_turned_over() -> None:
    found = states([looked_up(n, writes=10.0 * n, blocks=1_000) for n in range(1, 20)])
    assert set(found) == {"Storing"}  # 64,000 tokens on the device, three times


def test_a_device_of_unknown_size_may_have_kept_everything() -> None:
    assert set(states([looked_up(n, writes=n, blocks=0) for n in range(1, 60)])) == {"Storing"}


def test_prompts_that_never_repeat_are_no_fault() -> None:
    pages = [vllm(prompt=5_000 * n, lookups=5_000 * n, writes=n, blocks=10) for n in range(1, 40)]
    assert set(states(pages)) == {"Storing"}


def test_lookups_without_a_write_are_silent() -> None:
    pages = [vllm(prompt=5_000 * n, lookups=5_000 * n, writes=0) for n in range(1, 6)]
    assert states(pages)[-1] == "Silent NoWrites"
    unknown = [vllm(prompt=5_000 * n, lookups=5_000 * n) for n in range(1, 6)]
    assert states(unknown)[-1] == "Storing"
    assert states(unknown, tier_writes=False)[-1] == "Silent NoWrites"
    assert states(unknown, tier_writes=True)[-1] == "Storing"


def test_hits_that_stop_are_told_after_half_an_hour_of_traffic() -> None:
    first = looked_up(1, hits=500, writes=1, blocks=10)
    found = states([first, *(looked_up(n, hits=500, writes=n, blocks=10) for n in range(2, 140))])
    assert found[100] == "Hitting"
    assert found[-1] == "NeverRead HitsStopped"
    assert found.count("Hitting") * STEP >= 1_800


def test_a_pause_is_no_time_with_traffic() -> None:
    """An engine with hits has half an hour of traffic for the next one, not of the clock."""
    hit = vllm(prompt=5_000, device=1_000, lookups=4_000, hits=500, writes=1, blocks=10)
    unlike = vllm(prompt=50_000, device=1_000, lookups=49_000, hits=500, writes=2, blocks=10)
    next_day = vllm(prompt=54_000, device=4_000, lookups=50_000, hits=500, writes=3, blocks=10)
    found = states([hit, *[unlike] * 5_000, *[next_day] * 100])
    assert (found[-102], set(found[-100:])) == ("Idle", {"Hitting"})


def test_counters_that_are_missing_once_are_no_restart_and_no_hits() -> None:
    whole = vllm(prompt=90_000, lookups=90_000, hits=400, writes=1)
    part = whole[: whole.index("vllm:external_prefix_cache_hits")]
    assert states([whole, *[whole] * 300, part, whole])[-3:] == ["Idle"] * 3
    # One of two engine cores is gone.
    less = vllm(prompt=60_000, lookups=60_000, hits=300, writes=1)
    assert states([whole, *[whole] * 300, less, less])[-2:] == ["Storing"] * 2


def test_a_hit_ends_every_doubt() -> None:
    pages = [looked_up(n, writes=n, blocks=10) for n in range(1, 20)]
    pages.append(looked_up(20, hits=64, writes=20, blocks=10))
    assert states(pages)[-2:] == ["NeverRead", "Hitting"]


def test_one_failure_is_forgiven_and_two_in_a_row_are_not() -> None:
    def page(number: int, failures: float) -> str:
        return vllm(prompt=100 * number, lookups=100 * number, failures=failures)

    assert states([page(1, 5), page(2, 6), page(3, 6), page(4, 7)])[-1] == "Storing"
    found = states([page(1, 5), page(2, 6), page(3, 7), *(page(n, 7) for n in range(4, 60))])
    assert found[2] == found[30] == "Failing"
    assert found[-1] == "Storing"


# What grows by how much a round, beside what fails of it -> whether the engine fails.
SHARES = {
    "a key of a hundred is lost between lookup and load": ("load_get", 100, 1, False),
    "all loads fail, which are few": ("load_get", 5, 5, True),
    "a tenth of the writes fails": ("save_put", 100, 10, True),
    "one write of a hundred finds no room": ("save_put", 100, 1, False),
}


@pytest.mark.parametrize("name", SHARES)
def test_a_few_keys_that_fail_are_no_failure(name: str) -> None:
    operation, every, failed, fails = SHARES[name]
    row = f'vllm:mooncake_store_operation_{{}}_total{{{{operation="{operation}"}}}} {{}}\n'
    other = 'vllm:mooncake_store_operation_keys_total{operation="lookup_exists"} 1000000\n'
    found = states(
        vllm(prompt=100 * n, lookups=100 * n)
        + row.format("keys", every * n)
        + row.format("failed_keys", failed * n)
        + other
        for n in range(1, 9)
    )
    assert found[-1] == ("Failing" if fails else "Storing")


@pytest.mark.parametrize(
    ("requests", "state"), [(1_000, "Storing"), (5, "Failing"), (0, "Failing")]
)
def test_a_client_that_leaves_is_no_failure_of_a_pair(requests: int, state: str) -> None:
    """vLLM counts blocks that nobody fetched, also those of requests that were cancelled."""
    pages = (
        vllm(prompt=100 * n, lookups=100 * n)
        + f'vllm:request_success_total{{finished_reason="length"}} {requests * n}\n'
        + f"vllm:nixl_num_kv_expired_reqs_total {n}\n"
        for n in range(1, 9)
    )
    assert states(pages, pairs=True)[-1] == state


def test_an_engine_that_does_not_answer_is_unreachable_after_three_rounds() -> None:
    hit = vllm(prompt=10, lookups=10, hits=5)
    assert states([hit, None, None, None, hit]) == [*["Hitting"] * 3, "Unreachable", "Hitting"]
    assert states(["", "", ""])[-1] == "Unreachable NoMetrics"


def test_a_restarted_engine_counts_anew() -> None:
    pages = [looked_up(n, writes=n, blocks=10) for n in range(1, 20)]
    assert states([*pages, vllm(prompt=100, lookups=100, writes=1)])[-1] == "Storing"


def test_a_prefill_engine_of_a_pair_never_hits_and_is_well() -> None:
    pages = [looked_up(n, blocks=10) for n in range(1, 60)]
    assert set(states(pages, pairs=True)) == {"Storing"}


def test_sglang_hits_in_host_memory_and_storage() -> None:
    assert states([sglang(prompt=5_000, host=100)]) == ["Hitting"]
    assert states([sglang(prompt=5_000, storage=100)]) == ["Hitting"]
    found = states([sglang(prompt=5_000 * n, device=1_000 * n) for n in range(1, 20)])
    assert found[-1] == "NeverRead"
