"""Modelled engines on one tier, for the canary: caches, counters, rounding and faults."""

import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from programs.observer.canary import TOKENS, WITHOUT_NUMBERS, Answer
from programs.observer.turns import Heard, Place, Request, Target

LENGTH = 1_024


def said(what: str, noise: Callable[[], float], cached: int | None = None) -> Answer:
    """The answer of a model to `what`. Two words are nearly equally likely at some places."""
    draw, chosen, likely = random.Random(what), [], []
    for place in range(TOKENS):
        words = [f"{what} {place} {number}" for number in range(5)]
        first = -draw.uniform(0.01, 2.0)
        rows = {word: first - draw.uniform(0.0, 1.5) * number for number, word in enumerate(words)}
        noisy = {word: min(0.0, value + noise()) for word, value in rows.items()}
        word = max(noisy, key=lambda each: noisy[each])
        chosen.append((word, noisy[word]))
        likely.append(noisy)
        if word != words[0]:
            what += " and another word"  # what follows is about something else
            draw = random.Random(what)
    return Answer(tuple(chosen), tuple(likely), LENGTH, cached)


@dataclass
class Modelled:
    """One engine. `wrong`: the share of prompts whose blocks it reads wrongly. `breaks`: what it
    computes, and stores, are no numbers."""

    target: Target
    wrong: float = 0.0
    breaks: bool = False
    status: int = 200
    own: dict[str, bool] = field(default_factory=dict)  # what its own cache holds, rightly or not


class World:
    """Engines around one tier. `noise`: of a log-probability of one answer, drawn per answer."""

    def __init__(self, number: int, seed: int, noise: Callable[[random.Random], float]) -> None:
        self.draw, self.noise = random.Random(seed), noise
        self.engines = {
            place: Modelled(Target(place, 8000, "vLLM", "llama", 0.0, 0.0, 0.0))
            for place in (("default", f"10.0.0.{n}") for n in range(number))
        }
        self.tier: set[str] = set()
        self.broken: set[str] = set()  # what lies in the tier, or in an engine, without numbers
        self.is_shared = True
        self.tells = False  # cached tokens in `usage`
        self.traffic = 0.0  # hits of other requests meanwhile
        self.asked: list[Request] = []

    def targets(self) -> list[Target]:
        return [engine.target for engine in self.engines.values()]

    def forget(self, place: Place) -> None:
        """Other prompts fill the engine's own cache anew."""
        engine = self.engines[place]
        engine.own.clear()
        more = 10 * engine.target.size
        target = engine.target
        engine.target = replace(
            target, prompted=target.prompted + more, computed=target.computed + more
        )

    def ask(self, request: Request) -> Heard:
        self.asked.append(request)
        engine = self.engines.get(request.target.place)
        if engine is None or engine.status != 200:
            return Heard(None, engine.status if engine else 0)
        key = f"{request.salt} {request.prompt}"
        stored = key if self.is_shared else f"{request.target.place} {key}"
        is_own, is_stored = key in engine.own, stored in self.tier
        is_hit = is_stored and not is_own
        is_wrong = is_hit and random.Random(f"{stored} wrong").random() < engine.wrong
        is_wrong = engine.own.setdefault(key, is_wrong)
        computes = not is_own and not is_hit
        here, lies = f"{request.target.place} {key}", f"tier {stored}"
        if (computes and engine.breaks) or (is_hit and lies in self.broken):
            self.broken |= {here, lies}
        self.tier.add(stored)
        spread = self.noise(self.draw)
        what = f"{request.prompt[:99]} {'another' if is_wrong else ''}"
        cached = (LENGTH - 16) * (is_own or is_hit)
        answer = said(what, lambda: self.draw.gauss(0, spread), cached if self.tells else None)
        grown = {
            "prompt": float(LENGTH) + 2 * self.traffic,
            "device": float(LENGTH - 16) * is_own,
            "lookups": float(LENGTH) * (not is_own) + self.traffic,
            "hits": float(LENGTH - 16) * is_hit + self.traffic,
        }
        if here in self.broken:
            return Heard(WITHOUT_NUMBERS, 400, grown)
        return Heard(answer, 200, grown)


def at_once(ask: Callable[[Request], Heard], request: Request) -> "Future[Heard]":
    """Ask without a thread."""
    future: Future[Heard] = Future()
    future.set_result(ask(request))
    return future


def usual(draw: random.Random) -> float:
    """Rounding of sixteen bits in batches of other sizes."""
    return draw.choice((0.0, 0.01, 0.03))


def rough(draw: random.Random) -> float:
    """Eight bits and experts that are chosen otherwise: some answers are far from the others."""
    return 0.3 if draw.random() < 0.1 else 0.05


def worst(draw: random.Random) -> float:
    """Noise of which three of four answers look suspicious."""
    return draw.choice((0.05, 0.1, 0.3, 0.5))
