"""Drafts of advisories from upstream threads."""

from typing import Any

import pytest

from kv_offload.docs.drafts import drafts


def thread(number: int, title: str, body: str = "", kind: str = "issues") -> dict[str, Any]:
    return {
        "url": f"https://github.com/vllm-project/vllm/{kind}/{number}",
        "title": title,
        "body": body,
        "createdAt": "2026-10-02T08:00:00Z",
    }


def test_a_thread_with_a_connector_and_a_fault_is_drafted() -> None:
    (row,) = drafts([thread(99001, "Garbled output.", "OffloadingConnector, vLLM v0.32.1, 0.33.0")])
    assert row == {
        "id": "KVO-",
        "summary": "Garbled output",
        "engine": "vLLM",
        "connectors": ["OffloadingConnector"],
        "seen with": ["0.32.1", "0.33.0"],
        "effect": "wrong output",
        "evidence": "reported",
        "action": "caution",
        "fixed": "open",
        "published": "2026-10-02",
        "references": ["vllm 99001"],
    }


@pytest.mark.parametrize(
    ("title", "effect"),
    [
        ("NIXL transfer hangs", "hang"),
        ("Mooncake store leaks memory", "leak"),
        ("LMCache engine crash", "crash"),
        ("LMCache is silently dropped", "silent miss"),
    ],
)
def test_words_of_a_report_name_its_effect(title: str, effect: str) -> None:
    (row,) = drafts([thread(99002, title, kind="pull")])
    assert (row["effect"], row["references"]) == (effect, ["vllm PR 99002"])


@pytest.mark.parametrize(
    "left_out",
    [
        thread(53505, "OffloadingConnector: wrong output"),  # KVO-2026-032 names it
        thread(99003, "Scheduler hangs"),
        thread(99004, "Add OffloadingConnector docs"),
        {"title": "OffloadingConnector hangs"},
    ],
    ids=["known", "no connector", "no fault", "no thread"],
)
def test_other_threads_are_left_out(left_out: dict[str, Any]) -> None:
    assert list(drafts([left_out])) == []
