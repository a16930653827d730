"""The canary's pure test: what it reads of an answer, and when two differ by more than rounding."""

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from programs.observer import canary
from programs.observer.canary import (
    ALARM,
    FARTHEST,
    LEAST,
    MATCH,
    MISMATCH,
    WITHOUT_NUMBERS,
    Answer,
    apart,
    canary_prompt,
    compared,
    is_from_tier,
    parsed_answer,
    scored,
)
from tests.unit.programs.observer.modelled import rough, said, usual, worst


def completion(**more: Any) -> dict[str, Any]:
    """A completion as vLLM writes it, shortened."""
    logprobs = {
        "tokens": [" able", " also"],
        "token_logprobs": [-0.1, -0.2],
        "top_logprobs": [{" able": -0.1, " away": -3.0}, {" also": -0.2, " back": -2.0}],
    }
    choice = {"text": " able also", "logprobs": logprobs, "finish_reason": "length"}
    usage = {"prompt_tokens": 1031, "total_tokens": 1033, "prompt_tokens_details": None}
    return {"choices": [choice], "usage": usage} | more


LIKELY = ({" able": -0.1, " away": -3.0}, {" also": -0.2, " back": -2.0})
PLAIN = Answer(((" able", -0.1), (" also", -0.2)), LIKELY, 1031)
DETAILS = {"prompt_tokens": 1031, "prompt_tokens_details": {"cached_tokens": 1024}}
NO_TOPS = completion()
NO_TOPS["choices"][0]["logprobs"]["top_logprobs"] = None
SOURCES = {"cached_tokens_details": {"device": 64, "host": 300, "storage": 600}}

# The whole body that vLLM 0.33.0 answered with when blocks of its tier were no numbers.
NO_NUMBERS = {
    "error": {
        "message": "Out of range float values are not JSON compliant",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }
}

# name: (a body, what is read of it)
BODIES: dict[str, tuple[Any, Answer | None]] = {
    "vLLM's": (completion(), PLAIN),
    "with --enable-prompt-tokens-details": (
        completion(usage=DETAILS),
        Answer(PLAIN.chosen, LIKELY, 1031, 1024),
    ),
    "SGLang's with sources": (
        completion(sglext=SOURCES),
        Answer(PLAIN.chosen, LIKELY, 1031, None, 900),
    ),
    "without likely tokens": (NO_TOPS, Answer(PLAIN.chosen, ({}, {}), 1031)),
    "of no numbers, as SGLang writes them": (
        completion(choices=[{"logprobs": {"tokens": ["a"], "token_logprobs": [None]}}]),
        Answer((("a", LEAST),), ({},), 1031),
    ),
    "of no numbers, as vLLM refuses it": (NO_NUMBERS, WITHOUT_NUMBERS),
    "without log-probabilities": (completion(choices=[{"text": "a", "logprobs": None}]), None),
    "of two choices": (completion(choices=completion()["choices"] * 2), None),
    "of no tokens": (
        completion(choices=[{"logprobs": {"tokens": [], "token_logprobs": []}}]),
        None,
    ),
    "an error": ({"object": "error", "message": "no", "code": 400}, None),
    "a list": ([], None),
    "a negative count": (completion(usage={"prompt_tokens": -1}), None),
    "a count that is a word": (completion(usage={"prompt_tokens": "many"}), None),
    "a log-probability that is a list": (
        completion(choices=[{"logprobs": {"tokens": ["a"], "token_logprobs": [[]]}}]),
        None,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_only_a_completion_with_log_probabilities_is_an_answer(name: str) -> None:
    body, answer = BODIES[name]
    assert parsed_answer(json.dumps(body, separators=(",", ":")).encode()) == answer


HOSTILE = (b"", b"[" * 100_000, b'{"choices":[NaN]}', b"\xff", b"null")


@pytest.mark.parametrize("body", HOSTILE)
def test_nonsense_is_no_answer(body: bytes) -> None:
    assert parsed_answer(body) is None


def test_random_changes_of_an_answer_raise_nothing() -> None:
    draw, whole = random.Random(25), json.dumps(completion(sglext=SOURCES))
    for _ in range(3_000):
        cut = list(whole)
        for _ in range(draw.randrange(1, 6)):
            cut[draw.randrange(len(cut))] = draw.choice('{}[]",:0e-\\xN ')
        found = parsed_answer("".join(cut).encode())
        assert found is None or apart(found, found) == 0.0


def answer(*rows: dict[str, float]) -> Answer:
    """An answer whose first token of each place is chosen."""
    return Answer(tuple(next(iter(row.items())) for row in rows), tuple(rows), 1_000)


# name: (a computed answer, another one, how far they are apart)
PAIRS: dict[str, tuple[Answer, Answer, float]] = {
    "no numbers": (answer({"a": -0.1, "b": -2.0}), WITHOUT_NUMBERS, FARTHEST),
    "no numbers, of both": (WITHOUT_NUMBERS, WITHOUT_NUMBERS, 0.0),
    "the same": (answer({"a": -0.1}), answer({"a": -0.1}), 0.0),
    "rounding": (answer({"a": -0.1}, {"b": -1.0}), answer({"a": -0.12}, {"b": -1.05}), 0.05),
    "another word that was nearly as likely": (
        answer({"a": -0.70, "b": -0.71}, {"c": -0.1}),
        answer({"b": -0.69, "a": -0.72}, {"d": -0.1}),
        0.02,
    ),
    "another word": (answer({"a": -0.1, "b": -4.0}), answer({"b": -0.2, "a": -3.1}), 3.8),
    "a word that none has thought of": (
        answer({"a": -2.0, "b": -2.5}),
        answer({"c": -0.1, "d": -4.0}),
        2.4,
    ),
    "a word that is nowhere": (answer({"a": -0.1}), answer({"b": -0.2, "c": -2.1}), 2.0),
    "no likely words are told": (answer({"a": -0.1}), Answer((("b", -0.2),), ({},), 1_000), 0.1),
    "one ends early": (answer({"a": -0.1}, {"b": -0.1}), answer({"a": -0.1}), 0.0),
    "out of all bounds": (answer({"a": -0.1}), answer({"a": -9999.0}), 20.0),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_tokens_of_the_computed_answer_are_compared(name: str) -> None:
    computed, other, distance = PAIRS[name]
    assert apart(computed, other) == pytest.approx(distance)


NEAR, FAR = answer({"a": -0.1, "b": -3.0}), answer({"b": -0.1, "a": -3.0})
ROUGH = [answer({"a": -value, "b": -3.0}) for value in (0.1, 0.4, 1.0, 1.9)]

THREE = canary.SAMPLES
# name: (answers from the tier, computed ones, the outcome)
OUTCOMES: dict[str, tuple[list[Answer], list[Answer], str]] = {
    "near": ([NEAR], [NEAR], MATCH),
    "far from one": ([FAR], [NEAR], ""),
    "far from all": ([FAR] * THREE, [NEAR] * THREE, MISMATCH),
    "one computed is near": ([FAR] * THREE, [NEAR, NEAR, FAR], MATCH),
    "one from the tier is near": ([FAR, NEAR], [NEAR], MATCH),
    "computed ones are as far from each other": ([answer({"a": -3.0})] * 3, ROUGH[1:], MATCH),
    "those from the tier are as far from each other": (ROUGH[1:], [answer({"a": -4.0})] * 3, MATCH),
    "without any": ([FAR], [], ""),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_mismatch_is_clearly_farther_than_answers_of_one_kind_are(name: str) -> None:
    found, computed, outcome = OUTCOMES[name]
    assert compared(found, computed) == outcome


def of(**more: Any) -> Answer:
    return Answer((("a", -0.1),), ({},), 1_000, **more)


ALONE = {"prompt": 1_000.0, "lookups": 1_000.0, "hits": 960.0}
BUSY = {"prompt": 9_000.0, "lookups": 7_000.0, "hits": 5_000.0}
# name: (the answer, what counters grew by, the engine cannot have it) -> it came from the tier
SOURCES_OF: dict[str, tuple[Answer, dict[str, float], bool, bool | None]] = {
    "hits of this request alone": (of(), ALONE, True, True),
    "hits, and others asked meanwhile": (of(), BUSY, True, None),
    "lookups of others": (of(), ALONE | {"lookups": 1_500.0}, True, None),
    "no hits": (of(), ALONE | {"hits": 0.0}, True, False),
    "fewer than half": (of(), ALONE | {"hits": 400.0}, True, False),
    "counters that were not read": (of(), {}, True, False),
    "a restart": (of(), {"prompt": -9_000.0, "hits": -5_000.0}, True, False),
    "said in the answer": (of(cached=960), BUSY, True, True),
    "denied in the answer": (of(cached=0), BUSY, True, False),
    "cached, perhaps in its own cache": (of(cached=960), BUSY, False, None),
    "cached in its own cache": (of(cached=960), {"prompt": 1_000.0, "device": 960.0}, False, False),
    "SGLang's storage": (of(offloaded=960), BUSY, False, True),
    "SGLang's device": (of(offloaded=0, cached=960), BUSY, False, False),
    "SGLang on LMCache": (of(offloaded=0), {"prompt": 1_000.0, "device": 960.0}, True, True),
}


@pytest.mark.parametrize("name", SOURCES_OF)
def test_where_an_answer_came_from(name: str) -> None:
    found, grown, is_fresh, is_tiers = SOURCES_OF[name]
    assert is_from_tier(found, grown, is_fresh) is is_tiers


def test_a_prompt_ends_as_a_place_in_its_middle_goes_on() -> None:
    words = canary_prompt("seed 7", 1_024).split()
    assert 1_000 < len(words) < 1_060
    tail = words[-canary.TAIL :]
    starts = [n for n in range(len(words) - canary.TAIL) if words[n : n + canary.TAIL] == tail]
    assert len(starts) == 1
    assert canary_prompt("seed 7", 1_024) == " ".join(words)
    assert canary_prompt("seed 8", 1_024).split()[:64] != words[:64]


Noise = Callable[[random.Random], float]


def one_round(draw: random.Random, number: int, noise: Noise, *, wrong: bool) -> str:
    """The outcome of a round of the pure test with modelled answers."""

    def ask(what: str) -> Answer:
        spread = noise(draw)
        return said(what, lambda: draw.gauss(0, spread))

    from_tier = f"prompt {number}{' of another' if wrong else ''}"
    tiers, own = [ask(from_tier)], list[Answer]()
    outcome = compared(tiers, [ask(f"prompt {number}")])
    while not outcome:
        own.append(ask(f"prompt {number}"))
        tiers.append(ask(from_tier))
        outcome = compared(tiers[:THREE], own)
    return outcome


# name: (noise, mismatches among clean rounds, matches among wrong ones; at most, as shares)
RATES: dict[str, tuple[Noise, float, float]] = {
    "sixteen bits": (usual, 0.0, 0.0),
    "eight bits and experts": (rough, 0.0, 0.02),
    "worse than any": (worst, 0.001, 0.05),
}
CLEAN = int(os.environ.get("CANARY_ROUNDS", "2000"))  # by hand: 10000
WRONG = CLEAN // 10


@pytest.mark.parametrize("name", RATES)
def test_rates_of_seeded_rounds(name: str) -> None:
    """Far fewer chance mismatches than `CHANCE`, on which the rate of false alarms rests."""
    noise, by_chance, missed = RATES[name]
    draw = random.Random(25)
    clean = [one_round(draw, number, noise, wrong=False) for number in range(CLEAN)]
    wrong = [one_round(draw, number, noise, wrong=True) for number in range(WRONG)]
    rates = clean.count(MISMATCH) / CLEAN, wrong.count(MATCH) / WRONG
    print(f"{name}: by chance {rates[0]:.2%}, missed {rates[1]:.2%}")
    assert rates[0] <= by_chance <= canary.CHANCE
    assert rates[1] <= missed


def alarm_after(draw: random.Random, share: float, most: int) -> int:
    """Rounds until the alarm, `most` without one."""
    score = 0.0
    for number in range(most):
        score = scored(score, MISMATCH if draw.random() < share else MATCH)
        if score >= ALARM:
            return number + 1
    return most


def test_false_alarms_are_as_rare_as_chosen_and_faults_are_found() -> None:
    draw = random.Random(25)
    # At the worst chance that is assumed: one alarm in 100,000 rounds, or fewer.
    alarms = sum(alarm_after(draw, canary.CHANCE, 1_000) < 1_000 for _ in range(300))
    assert alarms <= 6
    # Every block wrong: four rounds. A third, a tenth of the prompts: as many as that takes.
    assert alarm_after(draw, 1.0, 99) == 4
    for share, most in ((0.3, 60), (0.1, 2_000)):
        waits = sorted(alarm_after(draw, share, 100_000) for _ in range(200))
        assert waits[len(waits) // 2] < most / 2 and waits[-10] < most
