"""Ranks and processes derived from an engine's facts."""

import pytest

from function.contract.engine import Engine
from function.engines import ranks

DP, TP, PP = "--data-parallel-size", "--tensor-parallel-size", "--pipeline-parallel-size"
LOCAL, CP = "--data-parallel-size-local", "--prefill-context-parallel-size"
# (engine, pods, flags, whether every rank finds the blocks that it shares in its own pod)
NODE_LOCAL: tuple[tuple[str, int, dict[str, str | None], bool], ...] = (
    ("vLLM", 1, {TP: "8"}, True),
    ("vLLM", 2, {TP: "16"}, False),
    ("vLLM", 2, {DP: "16"}, True),
    ("vLLM", 2, {DP: "16", LOCAL: "8"}, True),
    ("vLLM", 2, {DP: "16", LOCAL: "16"}, True),
    ("vLLM", 2, {DP: "4", TP: "4", LOCAL: "2"}, True),
    ("vLLM", 2, {DP: "4", TP: "4"}, False),
    ("vLLM", 2, {DP: "4", TP: "4", LOCAL: "4"}, False),
    ("vLLM", 2, {DP: "4", PP: "2"}, False),
    ("vLLM", 4, {DP: "2", TP: "8", LOCAL: "1"}, False),
    ("vLLM", 2, {DP: None}, False),
    ("vLLM", 2, {DP: "16", "--data-parallel-backend": "ray"}, False),
    ("vLLM", 2, {DP: "16", "--distributed-executor-backend": "ray"}, False),
    ("vLLM", 2, {DP: "16", "--nnodes": "2"}, False),
    ("vLLM", 2, {DP: "4", CP: "2"}, False),
    ("vLLM", 2, {}, False),  # of an engine that no command shows
    ("vLLM", 2, {"--model": "m"}, False),  # the scheduler is in one pod, its rank in another
    ("SGLang", 2, {"--dp-size": "16", DP: "16"}, False),
)


@pytest.mark.parametrize(("name", "pods", "flags", "expected"), NODE_LOCAL)
def test_all_ranks_local_to_one_node(
    name: str, pods: int, flags: dict[str, str | None], expected: bool
) -> None:
    assert ranks.is_node_local(Engine(name, pods=pods, flags=flags)) is expected


# (engine, pods, flags, worker processes in one pod)
WORKERS: tuple[tuple[str, int, dict[str, str | None], int], ...] = (
    ("vLLM", 1, {}, 1),
    ("vLLM", 1, {TP: "2", PP: "2", CP: "2", DP: "2"}, 16),
    ("vLLM", 2, {TP: "8", CP: "2"}, 8),
    ("vLLM", 2, {DP: "16", LOCAL: "8"}, 8),
    ("vLLM", 1, {DP: "16", TP: "2", LOCAL: "4"}, 8),  # one workload for each pod
    ("vLLM", 1, {DP: "2", LOCAL: None}, 2),
    ("SGLang", 1, {"--tp-size": "8", "--dp-size": "8", "--enable-dp-attention": None}, 8),
    ("SGLang", 1, {"--tp-size": "2", "--dp-size": "4"}, 8),
)


@pytest.mark.parametrize(("name", "pods", "flags", "expected"), WORKERS)
def test_processes_in_a_pod(
    name: str, pods: int, flags: dict[str, str | None], expected: int
) -> None:
    assert ranks.workers(Engine(name, pods=pods, flags=flags)) == expected
