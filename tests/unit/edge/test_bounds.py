"""Memory that the function keeps is bounded, whatever requests it gets."""

import gc
import sys
from typing import Any

from function.composers.tier_plan import _drafts, _plans
from function.edge import structs
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

ENGINE, OTHER = "model-serving-main", "unrelated"
_MIB = 1024 * 1024


def config_map(size: int) -> dict[str, Any]:
    data = {"blob": "x" * size}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": data}


def reachable(*roots: object) -> int:
    """Bytes of everything that can be reached from the roots, functions and modules aside."""
    seen: set[int] = set()
    total, todo = 0, list(roots)
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        todo += gc.get_referents(thing)
    return total


def held() -> int:
    return reachable(structs._encoded, structs._decoded, structs._by_id, _drafts, _plans)


def test_unrelated_document_is_not_kept() -> None:
    desired = {ENGINE: d.engine(), OTHER: config_map(_MIB)}
    required = d.requirements(d.ready_tier())
    call(d.replica(), desired=desired, required=required)
    before = held()
    for _ in range(3):
        got = call(d.replica(), desired=desired, required=required)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert got.desired[OTHER] == desired[OTHER]
    assert held() - before < _MIB // 8


def test_memory_stays_bounded_with_changing_documents() -> None:
    """Each call brings documents that were never seen: what is held stops growing."""
    required = d.requirements(d.ready_tier())
    marks = []
    for i in range(600):
        engine = d.engine(args=[d.MODEL, "--served-model-name", f"{i}-" + "n" * 40_000])
        got = call(d.replica(), desired={ENGINE: engine}, required=required)
        if i % 200 == 199:
            marks.append(held())
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert structs.held() <= 128 * _MIB
    assert marks[2] - marks[1] < _MIB, marks
