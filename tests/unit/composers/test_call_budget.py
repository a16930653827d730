"""One budget for all commands of a call: who meets its end, and what the others get."""

from threading import Event, Thread
from typing import Any

import pytest

from function.command import budget, read
from function.command.budget import LIMITS
from function.edge import structs
from function.problems import Refused
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe

Document = dict[str, Any]
REQUIRED = d.requirements(d.ready_tier())
SPENT = "reading all commands of this composite needs more than 65,536 bytes put into words"


def engine(name: str, size: int = 0) -> Document:
    """An engine; with `size`, of a script into which Kubernetes puts so many bytes of an env.

    They are counted as a word and as a script.
    """
    document = d.engine()
    pod = d.wired_pod(document)
    pod["metadata"].setdefault("labels", {})["name"] = name
    if size:
        pod["spec"]["containers"][0] |= {
            "env": [{"name": "V", "value": "x" * (size // 10)}],
            "command": ["sh", "-c"],
            "args": [f"# {'$(V)' * 10}\nexec vllm serve a/{name}"],
        }
    return document


def unremembered() -> None:
    structs._decoded._entries.clear()
    structs._by_id.clear()


def test_each_workload_behind_the_end_has_its_own_message() -> None:
    desired = {f"w{n}": engine(f"behind{n}", 7_000) for n in range(6)}
    desired |= {"z": engine("behind-z")}
    got = call(d.replica(), desired=desired, required=REQUIRED)
    assert not got.fatals
    text = got.messages["KVOffloadReady"]
    assert [f"{key}: Held back. {SPENT}" in text for key in desired] == [
        *[False] * 4,
        *[True] * 2,
        False,  # a plain command needs no expansion
    ]
    assert "z: Held back with the composite's other engines." in text
    assert got.conditions["KVOffloadReady"] == ("False", "ArgsNotPatchable")


def test_what_is_remembered_is_charged_too() -> None:
    desired = {f"w{n}": engine(f"again{n}", 7_000) for n in range(6)}
    last = {key: desired[key] for key in ("w4", "w5")}
    remembered = call(d.replica(), desired=last, required=REQUIRED)
    assert remembered.conditions["KVOffloadReady"] == ("True", "Wired")
    warm = [call(d.replica(), desired=desired, required=REQUIRED) for _ in range(2)]
    unremembered()
    assert warm == [call(d.replica(), desired=desired, required=REQUIRED)] * 2


def test_what_runs_is_read_first() -> None:
    runs = {"z": engine("runs", 7_000)}
    first = call(d.replica(), desired=runs, required=REQUIRED)
    new = {f"w{n}": engine(f"new{n}", 7_000) for n in range(6)}
    got = call(d.replica(), desired=new | runs, observed=observe(first), required=REQUIRED)
    assert got.desired["z"] == first.desired["z"]
    assert f"w3: Held back. {SPENT}" in got.messages["KVOffloadReady"]


def test_many_containers_cost_as_much_as_one_call_may() -> None:
    with budget.of_call() as spent, pytest.raises(budget.CallSpent):
        for n in range(100):
            read({"command": ["sh", "-c", f"vllm serve m{n} " + "--a=1 " * 5000]})
    limit = LIMITS["scripts"]
    assert spent.counted["scripts"] <= limit.call + limit.most


def test_work_stops_when_the_client_has_gone() -> None:
    gone = Event()
    container = {"command": ["sh", "-c", "vllm serve m"]}
    with budget.of_call(gone):
        assert read(container).calls
        gone.set()
        with pytest.raises(budget.Cancelled):
            read(container)


def test_a_limit_of_the_call_is_no_refusal_that_is_remembered() -> None:
    assert not issubclass(budget.CallSpent, Refused)


def test_one_long_call_goes_on_at_a_time() -> None:
    """The others wait, and a quick one passes; a waiting call stops when its client goes."""
    long, quick = LIMITS["scripts"].call // 8 + 1, LIMITS["scripts"].call // 8
    done: list[str] = []
    gone = Event()

    def work(name: str, amount: int, cancelled: Event) -> None:
        try:
            with budget.of_call(cancelled) as spent:
                spent.charge("scripts", amount)
                done.append(name)
        except budget.Cancelled:
            done.append(f"{name} cancelled")

    with budget.of_call() as first:
        first.charge("scripts", long)
        first.charge("steps", LIMITS["steps"].call)
        second, third = (
            Thread(target=work, args=(name, long, cancelled))
            for name, cancelled in (("second", Event()), ("third", gone))
        )
        second.start()
        third.start()
        work("quick", quick, Event())
        gone.set()
        third.join(30)
        assert done == ["quick", "third cancelled"]
    second.join(30)
    assert done[2:] == ["second"]
    work("fourth", long, Event())
    assert done[3:] == ["fourth"]
