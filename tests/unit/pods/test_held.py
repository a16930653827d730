"""Facts read from a pod are cached: a call does not read a document twice."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from function import command, workloads
from function.command.shell import grammar
from function.engines import registry, vllm
from function.engines.vllm import plan, read
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe

ENGINE = "model-serving-main"
SCRIPT = "set -e\nARGS='--port 80'\nexec vllm serve {model} $ARGS"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often pods, their scripts and their flags are read, by what was called."""
    counts: Counter[str] = Counter()

    def count(module: Any, name: str, key: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counts[key] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, counting)

    count(command, "read", "argv")
    count(workloads, "find", "templates")
    count(read, "effective", "flags")
    count(plan, "plan", "plans")
    monkeypatch.setattr(vllm, "KIND", replace(vllm.KIND, read=read.effective, plan=plan.plan))
    registry.kind.cache_clear()
    count(grammar, "parse", "scripts")
    yield counts
    registry.kind.cache_clear()


def script(model: str) -> dict[str, Any]:
    document = d.engine()
    container = d.wired_pod(document)["spec"]["containers"][0]
    container |= {"command": ["bash", "-c"], "args": [SCRIPT.format(model=model)]}
    return document


def required(model: str) -> dict[str, Any]:
    return d.requirements(d.ready_tier())


def test_script_is_read_once_and_its_edit_is_checked_once(counted: Counter[str]) -> None:
    got = call(d.replica(), desired={ENGINE: script("a/once")}, required=required("a/once"))
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    # The second parse is of the edited script, for the proof.
    assert counted == {"argv": 1, "templates": 1, "flags": 1, "plans": 1, "scripts": 2}


def test_tier_field_costs_no_more_reads_than_an_annotation(counted: Counter[str]) -> None:
    document = script("a/field")
    d.wired_pod(document)["metadata"].pop("annotations")
    composite = d.replica(kvOffloadTierRef={"name": "chat"})
    got = call(composite, desired={ENGINE: document}, required=required("a/field"))
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert counted == {"argv": 1, "templates": 1, "flags": 1, "plans": 1, "scripts": 2}


def test_unchanged_document_is_not_read_again(counted: Counter[str]) -> None:
    desired, composite = {ENGINE: script("a/again")}, d.replica()
    first = call(composite, desired=desired, required=required("a/again"))
    observed = observe(first)
    call(composite, desired=desired, observed=observed, required=required("a/again"))
    counted.clear()
    steady = call(composite, desired=desired, observed=observed, required=required("a/again"))
    assert steady.desired[ENGINE] == first.desired[ENGINE]
    assert counted == {}


def test_unchanged_document_named_by_a_field_is_not_read_again(counted: Counter[str]) -> None:
    document = script("a/field-again")
    d.wired_pod(document)["metadata"].pop("annotations")
    composite = d.replica(kvOffloadTierRef={"name": "chat"})
    call(composite, desired={ENGINE: document}, required=required("a/field-again"))
    counted.clear()
    call(composite, desired={ENGINE: document}, required=required("a/field-again"))
    assert counted == {}


def test_replay_reads_the_pod_once(counted: Counter[str]) -> None:
    desired, composite = {ENGINE: script("a/replay")}, d.replica()
    first = call(composite, desired=desired, required=required("a/replay"))
    counted.clear()
    gone = d.requirements()
    replayed = call(composite, desired=desired, observed=observe(first), required=gone)
    assert replayed.conditions["KVOffloadReady"] == ("False", "TierNotFound")
    assert replayed.desired[ENGINE] == first.desired[ENGINE]
    assert counted == {"argv": 1, "templates": 1, "flags": 1, "plans": 1, "scripts": 2}
