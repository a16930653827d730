"""The canary's turns: which engine is asked what and when, and what is known of engines by it.

One request at a time for the whole tier. An answer shows blocks of the tier only where the engine
cannot have them in its own cache: another engine computed the prompt, or this one has computed
several times what its cache holds since.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from .canary import ALARM, MATCH, MISMATCH, Answer, canary_prompt, compared, is_from_tier, scored
from .judge import TURNS

Place = tuple[str, str]  # namespace, address of an engine; or namespace, model of several

FIRST = 60.0  # seconds before the first round
SETTLE = 15.0  # seconds for blocks to reach the tier
BEAT = 1.0  # seconds between two looks whether a round can go on
DOUBT = 5.0  # seconds between rounds with an outcome while an engine is suspected, none accused
DOUBTS = 60  # rounds at that pace, until nobody is suspected any more
QUICK = 10  # times as many rounds otherwise while one is suspected or accused
OTHERS = 4  # each of so many quick rounds is about all engines
LATELY = 86_400.0  # seconds for which a compared answer counts; an accusation without engines too
MOST_KEPT = 32  # computed answers that wait until their engine forgets, and accusations
CLEARED = 20  # matches, one after another, that take an accusation back
REPEATS_MOST = 7  # requests that a suspected answer costs; a computed one may be of no use
FRUITLESS = 10  # quick rounds without an outcome, after which they are not quick any more

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MODEL = re.compile(r"[\w./:@+-]{1,128}", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f.:]{2,45}")
ENGINE_KINDS = ("vLLM", "SGLang")

# What the canary says of the engines of a model.
COMPARED, NOT_COMPARED = "Compared", "NotCompared"
KEY_REQUIRED, NO_ANSWER = "KeyRequired", "NoAnswer"
CANARY_WORDS = (COMPARED, NOT_COMPARED, KEY_REQUIRED, NO_ANSWER)


@dataclass(frozen=True)
class Target:
    """An engine that can be asked. `prompted`: tokens of its prompts. `computed`: those of them
    that its own cache had not. `size`: tokens that this cache holds, 0 where it is unknown.
    """

    place: Place
    port: int
    kind: str
    model: str
    prompted: float
    computed: float
    size: float

    @property
    def group(self) -> Place:
        """The namespace and the model."""
        return self.place[0], self.model


@dataclass(frozen=True)
class Request:
    """A prompt for one engine. `salt`: gives it a beginning that no cache has."""

    target: Target
    prompt: str
    salt: str = ""


@dataclass(frozen=True)
class Heard:
    """What came back: an answer or None, the HTTP status (0: nobody answered), and what the
    counters grew by meanwhile."""

    answer: Answer | None
    status: int = 200
    grown: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """A computed answer that waits until its engine has forgotten the prompt.

    `target`: the engine at the first look after it answered; None before.
    """

    prompt: str
    answer: Answer
    target: Target | None = None


@dataclass
class Accused:
    """An engine that gave answers from wrong blocks; `left`: matches until it is cleared.

    Place it is gone, matches of the others count: its blocks may still be in the tier.
    """

    group: Place
    kind: str
    left: int = CLEARED
    seen: float = 0.0


Turn = Generator["Request | float", "Heard | None", None]


class Canary:
    """`every`: seconds between two rounds. `tokens`: of a prompt. `seed`: a secret of its own."""

    def __init__(
        self, every: float, tokens: int, seed: str, ask: Callable[[Request], Heard]
    ) -> None:
        self.every, self.tokens, self.seed, self.ask = every, tokens, seed, ask
        self.scores: dict[Place, float] = {}
        self.accused: dict[Place, Accused] = {}
        self.kept: dict[Place, Kept] = {}
        self.compared: dict[Place, float] = {}  # by group: when an answer of the tier was compared
        self.failed: dict[Place, str] = {}  # by group: why the last round did not end
        self.targets: dict[Place, Target] = {}
        self._looked_at: list[Target] = []
        self._known: dict[Place, Place] = {}  # engines with their group, those that rest too
        self.number = 0  # of rounds
        self.salts = 0
        self.fruitless = 0  # quick rounds without an outcome, one after another
        self.doubts = 0  # rounds that followed at once
        self.until: float | None = None
        self._turn: Turn | None = None
        self._pending: Future[Heard] | None = None
        self._now = 0.0

    def restore(self, rows: list[dict[str, str]], state: str) -> None:
        """Take over the accusations of an observer before this one, as it would write them."""
        for row in rows:
            group = namespace, model = row["namespace"], row["model"]
            at, kind = row.get("at", ""), row.get("kind", "")
            is_group = _NAMESPACE.fullmatch(namespace) and _MODEL.fullmatch(model)
            is_engine = _ADDRESS.fullmatch(at) and kind in ENGINE_KINDS
            if row.get("state") == state and is_group and is_engine:
                self.accused[namespace, at] = Accused(group, kind)

    def step(self, now: float, targets: list[Target], silent: dict[Place, Place]) -> None:
        """Go on with the round as far as that is possible without waiting.

        `silent`: engines that are not asked now and may come back, with their group.
        """
        self._now = now
        if targets is not self._looked_at:
            self._look(targets)
        self._known = {**silent, **{target.place: target.group for target in targets}}
        self._forget()
        if self.until is None:
            self.until = now + FIRST
        heard = None
        if self._pending is not None:
            if not self._pending.done():
                return
            heard, self._pending = self._pending.result(), None
        elif now < self.until:
            return
        if self._turn is None:
            self._turn = self._next_turn()
        try:
            wanted = self._turn.send(heard)
        except StopIteration:
            self._turn = None
            self.until = now + self._pause()
            return
        if isinstance(wanted, Request):
            self._pending = _in_thread(self.ask, wanted)
        else:
            self.until = now + wanted

    def _look(self, targets: list[Target]) -> None:
        """Take over what the last look found of the engines."""
        self._looked_at = targets
        self.targets = {target.place: target for target in targets}
        for place, kept in self.kept.items():
            if kept.target is None and place in self.targets:
                self.kept[place] = replace(kept, target=self.targets[place])

    def word(self, group: Place) -> str:
        """Return what the canary says of a group's engines."""
        if self._now - self.compared.get(group, -LATELY) < LATELY:
            return COMPARED
        return self.failed.get(group) or NOT_COMPARED

    @property
    def _is_quick(self) -> bool:
        return self.fruitless < FRUITLESS and bool(self.accused or self._suspected)

    @property
    def _suspected(self) -> list[Place]:
        return [place for place in sorted(self.targets) if self.scores.get(place, 0.0) > 0]

    def _pause(self) -> float:
        if not self._is_quick:
            return self.every
        if self.accused or self.fruitless or self.doubts >= DOUBTS:
            return max(FIRST, self.every / QUICK)
        self.doubts += 1
        return DOUBT

    def _forget(self) -> None:
        """Forget what is gone."""
        groups = set(self._known.values())
        for each in (self.scores, self.kept):
            for place in each.keys() - self._known.keys():
                del each[place]
        for named in (self.compared, self.failed):
            for group in named.keys() - groups:
                del named[group]
        for place, accused in list(self.accused.items()):
            if accused.group in groups or not accused.seen:
                accused.seen = self._now
            elif self._now - accused.seen > LATELY:
                del self.accused[place]

    def _next_turn(self) -> Turn:
        """Return the next round: of an engine that is suspected, or of the next one of all."""
        self.number += 1
        number, places, suspected = self.number, sorted(self.targets), self._suspected
        if not suspected:
            self.doubts = 0
        if self._is_quick and number % OTHERS:
            accused = [place for place in places if self._accusation(self.targets[place])]
            places = suspected or accused or places
        elif self._is_quick:
            number //= OTHERS  # all in turn, not each fourth of them
        self.fruitless += 1
        if not places:
            return self._rest()
        return self._round(self.targets[places[number % len(places)]])

    def _accusation(self, target: Target) -> Accused | None:
        """Return the accusation that an engine's matches may take back."""
        own = self.accused.get(target.place)
        if own is not None and own.group == target.group:
            return own
        gone = (
            each
            for place, each in self.accused.items()
            if each.group == target.group and self._known.get(place) != each.group
        )
        return next(gone, None)

    def is_accused(self, place: Place, group: Place) -> bool:
        """Return whether an engine is accused; addresses are used again, by other models too."""
        return place in self.accused and self.accused[place].group == group

    def _rest(self) -> Turn:
        yield from ()

    def _round(self, reader: Target) -> Turn:
        """Ask one engine with blocks of the tier, after it or another one computed the prompt."""
        kept = self.kept.get(reader.place)
        if kept is not None and self._has_forgotten(reader, kept):
            del self.kept[reader.place]
            yield from self._compare(reader, kept.prompt, kept.answer, False)
            return
        others = sorted(
            place
            for place, each in self.targets.items()
            if each.group == reader.group and place != reader.place
        )
        can_keep = reader.size > 0 and len(self.kept) < MOST_KEPT
        if not others and (kept is not None or not can_keep):
            return  # nobody could tell whether it has forgotten the prompt, or not yet
        writer = self.targets[others[self.number % len(others)]] if others else reader
        prompt = canary_prompt(f"{self.seed} {self.number}", self.tokens)
        heard = yield Request(writer, prompt)
        answer = self._answer(writer, heard)
        if answer is None:
            return
        if writer.size and len(self.kept) < MOST_KEPT:
            self.kept.setdefault(writer.place, Kept(prompt, answer))
        if writer is not reader:
            yield SETTLE
            yield from self._compare(reader, prompt, answer, True)

    def _has_forgotten(self, target: Target, kept: Kept) -> bool:
        """Return whether its own cache was filled anew several times, or it was restarted."""
        if kept.target is None:
            return False
        passed = target.computed - kept.target.computed
        is_filled = target.size > 0 and passed >= TURNS * target.size
        return is_filled or target.prompted < kept.target.prompted

    def _compare(self, reader: Target, prompt: str, computed: Answer, is_fresh: bool) -> Turn:
        heard = yield Request(reader, prompt)
        answer = self._answer(reader, heard)
        if answer is None or heard is None:
            return
        if not answer.prompt:
            answer = replace(answer, prompt=computed.prompt or self.tokens)
        known = is_from_tier(answer, heard.grown, is_fresh)
        if known is False:
            return
        tiers, own = [answer], list[Answer]()
        # An engine that computes no numbers may have stored none.
        outcome = compared(tiers, [computed]) if computed.has_numbers else ""
        for _ in range(REPEATS_MOST):
            if outcome:
                break
            # Its own cache holds now what it took from the tier.
            again = len(tiers) <= len(own)
            self.salts += 1
            salt = "" if again else f"canary-{self.seed}-{self.salts}"
            heard = yield Request(reader, prompt, salt)
            more = self._answer(reader, heard)
            if more is None or heard is None:
                return
            if again:
                tiers.append(more)
            elif not more.has_numbers:
                return  # its own computing is broken
            elif is_from_tier(more, heard.grown, True) is not True:
                own.append(more)
            outcome = compared(tiers, own)
        if outcome:
            self._end(reader, outcome, bool(known))

    def _answer(self, target: Target, heard: Heard | None) -> Answer | None:
        """Return the answer, or None and remember why there is none."""
        if heard is not None and heard.answer is not None:
            self.failed.pop(target.group, None)
            return heard.answer
        is_locked = heard is not None and heard.status in (401, 403)
        self.failed[target.group] = KEY_REQUIRED if is_locked else NO_ANSWER
        if is_locked:
            self.compared.pop(target.group, None)
        return None

    def _end(self, reader: Target, outcome: str, is_known: bool) -> None:
        """Take the outcome of a round into the account of its engine."""
        place = reader.place
        self.fruitless = 0
        if is_known:
            self.compared[reader.group] = self._now
        accused = self._accusation(reader)
        if accused is not None and outcome == MATCH and is_known:
            accused.left -= 1
            if accused.left <= 0:
                self.accused = {p: each for p, each in self.accused.items() if each is not accused}
        elif accused is not None and outcome == MISMATCH:
            accused.left = CLEARED
        score = scored(self.scores.get(place, 0.0), outcome)
        self.scores[place] = score
        if score >= ALARM:
            self.scores[place] = 0.0
            if place in self.accused or len(self.accused) < MOST_KEPT:
                self.accused[place] = Accused(reader.group, reader.kind, seen=self._now)


def _in_thread(ask: Callable[[Request], Heard], request: Request) -> Future[Heard]:
    """Return what will be heard; the thread ends with the process."""
    future: Future[Heard] = Future()

    def run() -> None:
        try:
            future.set_result(ask(request))
        except Exception:  # whatever a stranger's engine sends
            future.set_result(Heard(None, 0))

    threading.Thread(target=run, daemon=True).start()
    return future
