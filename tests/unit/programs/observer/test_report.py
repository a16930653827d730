"""The document: bounded, in steps, and the same for the same."""

import pytest

from programs.observer import report as reports
from programs.observer.judge import Memory
from programs.observer.report import Engine, count, report, restored, share, text


def engines(**states: int) -> list[Engine]:
    """So many engines in each state."""
    return [
        Engine("default", f"10.0.{n}.{i}", "vLLM", "llama", Memory(state=state))
        for n, (state, number) in enumerate(sorted(states.items()))
        for i in range(number)
    ]


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ({}, "Idle"),
        ({"Idle": 3}, "Idle"),
        ({"Idle": 3, "Storing": 1}, "Storing"),
        ({"Storing": 9, "Hitting": 1}, "Hitting"),
        ({"Hitting": 9, "Silent": 1}, "Silent"),
        ({"Hitting": 10, "Silent": 1}, "Hitting"),
        ({"Hitting": 10, "Silent": 1, "Unreachable": 1}, "Silent"),
        ({"Hitting": 2, "NeverRead": 5, "Failing": 1}, "Failing"),
        ({"Hitting": 999, "Failing": 500, "WrongBlocks": 1}, "WrongBlocks"),
    ],
)
def test_the_tier_has_the_hardest_state_of_enough_engines(states: dict, state: str) -> None:
    assert report(engines(**states), {}, {})["state"] == state


def test_an_engine_more_or_less_changes_no_state() -> None:
    def state(hitting: int, before: dict) -> dict:
        return report(engines(Hitting=hitting, Silent=1), before, {})

    bad = state(9, {})
    assert (bad["state"], bad["models"][0]["state"]) == ("Silent", "Silent")
    assert state(11, bad)["state"] == state(11, bad)["models"][0]["state"] == "Silent"
    well = state(12, bad)
    assert (well["state"], well["models"][0]["state"]) == ("Hitting", "Hitting")
    assert state(10, well)["state"] == "Hitting"


def test_a_bad_tier_names_a_bad_model() -> None:
    """Two models just below the share that makes them bad: the tier's state does not stay."""

    def state(bad: dict[str, int], before: dict) -> dict:
        found = []
        for name, number in bad.items():
            found += [
                Engine("default", f"{name}{i}", "vLLM", name, Memory(state=state))
                for state, many in (("Silent", number), ("Hitting", 1_000 - number))
                for i in range(many)
            ]
        return report(found, before, {})

    first = state({"a": 110, "b": 90}, {})
    assert (first["state"], [row["state"] for row in first["models"]]) == (
        "Silent",
        ["Silent", "Hitting"],
    )
    later = state({"a": 79, "b": 95}, first)
    assert {later["state"], *(row["state"] for row in later["models"])} == {"Hitting"}


def test_engines_of_one_model_are_one_row_with_one_example() -> None:
    found = report(engines(Silent=12, Hitting=3), {}, {})
    assert found["engines"] == "10+"
    assert found["models"] == [
        {
            "namespace": "default",
            "model": "llama",
            "kind": "vLLM",
            "state": "Silent",
            "cause": "",
            "at": "10.0.1.0",
            "engines": "10+",
        }
    ]


def test_one_engine_with_wrong_blocks_is_named() -> None:
    found = report(engines(Hitting=999, WrongBlocks=1), {}, {})
    (row,) = found["models"]
    assert (row["state"], row["at"], row["engines"]) == ("WrongBlocks", "10.0.1.0", "1")
    assert report(engines(Hitting=1_000), found, {})["state"] == "Hitting"


def test_rows_say_what_the_canary_does() -> None:
    memory = Memory(state="Hitting")
    one = Engine("default", "10.0.0.1", "vLLM", "llama", memory, "KeyRequired")
    assert [row.get("canary") for row in report([one], {}, {})["models"]] == ["KeyRequired"]
    assert "canary" not in report(engines(Hitting=1), {}, {})["models"][0]
    assert restored(text(report([one], {}, {}))) == report([one], {}, {})


def test_models_are_judged_apart() -> None:
    others = [Engine("b", f"10.1.0.{i}", "vLLM", "qwen", Memory(state="Idle")) for i in range(30)]
    found = report([*engines(Silent=1), *others], {}, {})
    assert found["state"] == "Idle"
    assert [(row["model"], row["state"]) for row in found["models"]] == [
        ("llama", "Silent"),
        ("qwen", "Idle"),
    ]


def test_the_example_stays_while_it_is_bad() -> None:
    first = report(engines(Silent=3), {}, {})
    newcomer = Engine("default", "10.0.0.00", "vLLM", "llama", Memory(state="Silent"))
    assert report([newcomer, *engines(Silent=3)], first, {}) == first
    later = [e for e in engines(Silent=3) if e.address != "10.0.0.0"]
    assert report(later, first, {})["models"][0]["at"] == "10.0.0.1"


def test_a_document_of_a_thousand_models_is_small() -> None:
    many = [
        Engine(f"n{i}", f"10.0.0.{i}", "vLLM", "m" * 128, Memory(state="Silent", cause="NoLookups"))
        for i in range(1_000)
    ]
    found = report(many, {}, {"hits": "25", "used": "50"})
    assert len(found["models"]) == reports.ROWS
    assert len(text(found)) < 12_000
    assert restored(text(found)) == found


def test_no_namespace_takes_the_rows_of_another() -> None:
    """Whoever may run a pod in one may call its models as it likes, and let them fail."""
    loud = [
        Engine("a", f"10.0.0.{i}", "vLLM", f"m{i}", Memory(state="Failing")) for i in range(100)
    ]
    quiet = [Engine("b", "10.1.0.1", "vLLM", f"m{i}", Memory(state="Hitting")) for i in range(3)]
    rows = report([*loud, *quiet], {}, {})["models"]
    assert len(rows) == reports.ROWS
    assert [row["model"] for row in rows if row["namespace"] == "b"] == ["m0", "m1", "m2"]
    assert [row["state"] for row in rows] == ["Failing"] * 29 + ["Hitting"] * 3


def test_counts_move_in_steps_and_fall_late() -> None:
    assert [count(n) for n in (0, 1, 2, 9, 10, 99, 5_000)] == [
        "0", "1", "2+", "2+", "10+", "10+", "1000+"
    ]  # fmt: skip
    assert count(9, "10+") == count(8, "10+") == "10+"
    assert count(7, "10+") == "2+"
    assert count(12, "nonsense") == "10+"


def test_shares_move_in_steps_and_fall_late() -> None:
    assert [share(p, 100) for p in (0, 0.5, 5, 25, 80, 100)] == ["0", "0", "1", "25", "75", "90"]
    assert share(24, 100, "25") == "25"
    assert share(20, 100, "25") == "10"
    assert share(5, 0) == "0"


@pytest.mark.parametrize(
    "written", ["", "[]", "{", "null", '{"format":2}', '{"format":1,"models":[1]}']
)
def test_what_others_wrote_is_not_taken_up(written: str) -> None:
    assert restored(written) == {}
