"""Tell wrong blocks from chance: compare a computed answer with one that used blocks of the tier.

Pure functions. One round compares one prompt. Its outcome moves a score (CUSUM, a sequential
probability ratio test that starts anew at 0), and the score raises the alarm:

1. `apart` measures how far two answers are apart, in log-probabilities of the tokens that the
   computed answer chose. Rounding of batches moves them by hundredths, another prompt's blocks
   by whole units.
2. Beyond `SUSPECT` the engine is asked until there are `SAMPLES` answers of both kinds: its own
   cache now holds what it took from the tier, and a salt makes it compute the prompt. It is a
   mismatch where both kinds are clearly farther from each other than answers of one kind are.
   Three against three fall apart like that by chance in less than one of ten cases that get here.
3. A sound engine is assumed to have a chance mismatch in at most `CHANCE` of its rounds. Then an
   engine is wrongly accused at most once in `1 / FALSE_ALARMS` of its rounds, on average.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

CHANCE = 0.01  # of rounds of a sound engine, that are a mismatch by chance: at most
FAULTY = 0.3  # of rounds that a fault makes a mismatch: from a tenth on it is found, later
FALSE_ALARMS = 1e-5  # in a round of a sound engine
ON_MISMATCH = math.log(FAULTY / CHANCE)
ON_MATCH = math.log((1 - FAULTY) / (1 - CHANCE))
ALARM = math.log(1 / FALSE_ALARMS)  # four mismatches with few matches between them

SUSPECT = 0.25  # natural units of a log-probability
MARGIN = 1.5  # times the largest distance between answers of one kind
SAMPLES = 3  # answers of each kind, that a mismatch is measured by
FARTHEST = 20.0  # units; more says nothing more
LEAST = -1e4  # log-probabilities below count as this, and NaN and null do

MATCH, MISMATCH = "Match", "Mismatch"

TOKENS = 8  # of an answer
TOP = 5  # log-probabilities of each
TAIL = 6  # words at the end of a prompt, which are those of another place in it
LONGEST_ANSWER = 256 * 1024  # bytes
LONGEST_REFUSAL = 1024  # bytes
_NO_NUMBERS = b'"message":"Out of range float values are not JSON compliant'
# Short words, a token each in most tokenizers; they say nothing of anybody.
_WORDS = (
    "able also away back ball bank base bear bell bird blue boat body bone book born both "
    "call calm card care case city clay coat cold cook cool copy corn cost dark date dawn "
    "deep desk door down draw dust each east easy edge face fact fair fall farm fast feet "
    "fine fire fish five flat food foot form four free full game gate "
)
WORDS = re.findall(r"\w+", _WORDS)


def canary_prompt(seed: str, tokens: int) -> str:
    """Return about `tokens` tokens of random words, the same ones for a seed.

    The last words are those of a place in the middle: a model that copies goes on as there, and
    needs the blocks of that place.
    """
    draw = random.Random(seed)  # the seed is secret, the sequence need not be
    words = [draw.choice(WORDS) for _ in range(max(4 * TAIL, tokens))]
    begin = draw.randrange(len(words) - 2 * TAIL)
    return " ".join([*words, *words[begin : begin + TAIL]])


@dataclass(frozen=True)
class Answer:
    """`chosen`: token and log-probability at each place; `likely`: the likeliest ones there.

    `prompt`: tokens of the prompt. `cached`: those that were not computed, None where unsaid.
    `offloaded`: those of them that came from host memory or storage, None where unsaid.
    """

    chosen: tuple[tuple[str, float], ...]
    likely: tuple[dict[str, float], ...]
    prompt: int
    cached: int | None = None
    offloaded: int | None = None

    @property
    def has_numbers(self) -> bool:
        """Whether its log-probabilities are numbers."""
        return all(value > LEAST for _, value in self.chosen)


# `prompt` is not said.
WITHOUT_NUMBERS = Answer((("", LEAST),), ({},), 0)


def parsed_answer(body: bytes) -> Answer | None:
    """Return a completion with log-probabilities, None for anything else.

    vLLM refuses to write NaN, which corrupt blocks lead to: that is an answer without numbers.
    """
    if _NO_NUMBERS in body[:LONGEST_REFUSAL]:
        return WITHOUT_NUMBERS
    try:
        found = json.loads(body)
        (choice,) = found["choices"]
        rows, usage = choice["logprobs"], found["usage"]
        chosen = [
            (str(token)[:128], _log(value))
            for token, value in zip(rows["tokens"], rows["token_logprobs"])
        ]
        tops = rows.get("top_logprobs") or []
        likely = [
            {str(token)[:128]: _log(value) for token, value in list((row or {}).items())[: 4 * TOP]}
            for row in tops[:TOKENS]
        ]
        prompt = _amount(usage["prompt_tokens"])
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        offloaded = _offloaded(found, choice)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    if not chosen or not prompt:
        return None
    likely += [{}] * (len(chosen) - len(likely))
    return Answer(
        tuple(chosen[:TOKENS]),
        tuple(likely[:TOKENS]),
        prompt,
        None if cached is None else _amount(cached),
        offloaded,
    )


def _offloaded(found: dict[str, Any], choice: dict[str, Any]) -> int | None:
    """Return what SGLang says of its host memory and its storage."""
    for where in (found, choice):
        details = (where.get("sglext") or {}).get("cached_tokens_details")
        if isinstance(details, dict):
            return _amount(details.get("host") or 0) + _amount(details.get("storage") or 0)
    return None


def _log(value: Any) -> float:
    """Return a log-probability; SGLang writes NaN as null."""
    number = LEAST if value is None else float(value)
    return LEAST if math.isnan(number) else min(0.0, max(LEAST, number))


def _amount(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1e9:
        raise ValueError(value)
    return value


def apart(one: Answer, other: Answer) -> float:
    """Return the largest difference of the log-probabilities of tokens that one of them chose.

    Places count as long as both have the same words before them. A token that is not among the
    likely ones of an answer is there at most as likely as the least of those.
    """
    largest = 0.0
    for place in range(min(len(one.chosen), len(other.chosen))):
        tokens = {one.chosen[place][0], other.chosen[place][0]}
        rows = [{**each.likely[place], **dict([each.chosen[place]])} for each in (one, other)]
        for here, there in (rows, rows[::-1]):
            for token in sorted(tokens & here.keys()):
                value = here[token]
                known = there.get(token, min(value, *there.values(), 0.0))
                largest = max(largest, abs(value - known))
        if len(tokens) > 1:
            break
    return min(largest, FARTHEST)


def compared(tiers: Sequence[Answer], computed: Sequence[Answer]) -> str:
    """Return whether answers with blocks of the tier are the computed ones, but for rounding.

    "": they do not look so, and `SAMPLES` of both are needed to say so.
    """
    across = min((apart(one, other) for one in tiers for other in computed), default=FARTHEST)
    if across <= SUSPECT:
        return MATCH
    if min(len(tiers), len(computed)) < SAMPLES:
        return ""
    noise = max(
        apart(one, other) for kind in (tiers, computed) for one, other in combinations(kind, 2)
    )
    return MISMATCH if across > MARGIN * noise else MATCH


def scored(score: float, outcome: str) -> float:
    """Return the score of an engine after one more round; at `ALARM` it is accused."""
    return max(0.0, score + (ON_MISMATCH if outcome == MISMATCH else ON_MATCH))


def is_from_tier(answer: Answer, grown: dict[str, float], is_fresh: bool) -> bool | None:
    """Return whether at least half of a prompt came from the tier; None: it is not sure.

    `grown`: what the engine's counters grew by meanwhile, other requests included. `is_fresh`: the
    engine cannot have the prompt in its own cache, whatever it calls the place.
    """
    needed = answer.prompt / 2
    if answer.offloaded is not None and (answer.offloaded >= needed or not is_fresh):
        return answer.offloaded >= needed
    if is_fresh and answer.cached is not None:
        return answer.cached >= needed
    hits = grown.get("hits", 0.0) + (grown.get("device", 0.0) if is_fresh else 0.0)
    if hits < needed or (answer.cached is not None and answer.cached < needed):
        return False
    is_alone = grown.get("prompt") == answer.prompt
    is_alone = is_alone and grown.get("lookups", 0.0) <= answer.prompt
    return True if is_alone else None
