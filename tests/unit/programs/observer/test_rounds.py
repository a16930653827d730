"""Rounds of the observer, with addresses and pages of the test's own."""

import json
import time
from typing import Any

import pytest

from programs.observer import main, turns
from programs.observer.canary import Answer
from programs.observer.main import Observer
from programs.observer.pages import Page
from tests.unit.programs.observer import sglang, vllm
from tests.unit.programs.observer.modelled import at_once

STEP = 15.0  # seconds between two rounds


class Map:
    """A ConfigMap that counts its writes."""

    def __init__(self, state: str = "") -> None:
        self.state, self.writes = state, 0

    def read(self) -> str:
        return self.state

    def write(self, state: str) -> None:
        self.state, self.writes = state, self.writes + 1


class World:
    """An observer and what it finds: `hosts` (None: the DNS is away) and `pages` by address."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: str = "", **config: Any) -> None:
        self.hosts: dict[str, list[str] | None] = {}
        self.pages: dict[str, str | None] = {}
        self.delays: dict[str, float] = {}
        self.map = Map(state)
        self.config = {
            "interval": STEP,
            "engines": [{"namespace": "default", "host": "engines", "ports": [1]}],
            **config,
        }
        self.now = 1_000.0
        monkeypatch.setattr(main, "addresses", lambda host: self.hosts.get(host, [*self.pages]))
        monkeypatch.setattr(main, "fetch", self.fetch)
        self.restart()

    def fetch(self, address: str, port: int) -> Page | None:
        time.sleep(self.delays.get(address, 0.0))
        text = self.pages.get(address)
        return None if text is None else Page(text)

    def restart(self) -> None:
        self.observer = Observer(self.config, self.map)  # type: ignore[arg-type]

    def rounds(self, number: int = 1) -> dict[str, Any]:
        for _ in range(number):
            self.observer.round(self.now)
            self.now += STEP
        return self.observer.document


def test_an_engine_with_endless_counters_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    rows = [
        f'vllm:{name}_total{{engine="{number}"}} 1.7e308\n'
        for name in ("prompt_tokens", "external_prefix_cache_hits")
        for number in range(2)
    ]
    world.pages = {"10.0.0.1": "".join(rows)}
    assert world.rounds(10)["state"] == "Idle"


CANARY = {"canary": {"every": 1_800, "tokens": 1_024}}
GOOD = vllm(prompt=50_000, lookups=50_000, hits=9_000, writes=1)


def with_canary(monkeypatch: pytest.MonkeyPatch, world: World) -> list[turns.Request]:
    """Let its engines answer wrongly with blocks of the tier. Return what they are asked."""
    asked: list[turns.Request] = []
    is_wrong = {"10.0.0.2"}

    def ask(request: turns.Request) -> turns.Heard:
        asked.append(request)
        is_stored = any(each.prompt == request.prompt for each in asked[:-1]) and not request.salt
        is_bad = is_stored and request.target.place[1] in is_wrong
        word = "another" if is_bad else "word"
        answer = Answer(((word, -0.1),), ({word: -0.1, "b": -5.0},), 1_000, 900 * is_stored)
        return turns.Heard(answer)

    assert world.observer.canary is not None
    world.observer.canary.ask = ask
    monkeypatch.setattr(turns, "_in_thread", at_once)
    return asked


def test_wrong_blocks_reach_the_document_and_outlive_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, **CANARY)
    world.pages = {"10.0.0.1": GOOD, "10.0.0.2": GOOD}
    with_canary(monkeypatch, world)
    assert world.rounds()["models"][0]["canary"] == "NotCompared"
    assert world.rounds(20)["state"] == "Hitting"
    found = world.rounds(600)
    row = {"namespace": "default", "model": "llama", "state": "WrongBlocks", "canary": "Compared"}
    more = {"kind": "vLLM", "cause": "", "at": "10.0.0.2", "engines": "1"}
    assert (found["state"], found["models"]) == ("WrongBlocks", [row | more])
    said = 'kv_offload_wrong_blocks{model_namespace="default",model="llama"} 1\n'
    assert world.observer.metrics.endswith(said)
    world.restart()
    with_canary(monkeypatch, world)
    found = world.rounds()
    assert found["state"] == json.loads(world.map.state)["state"] == "WrongBlocks"
    assert found["models"][0]["engines"] == "1"
    # Its pod is replaced: what it left in the tier may still be wrong.
    del world.pages["10.0.0.2"]
    found = world.rounds(60)
    assert (found["state"], found["models"][0]["at"]) == ("WrongBlocks", "10.0.0.2")


def test_counters_go_on_beside_an_accusation(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, **CANARY)
    world.pages = {"10.0.0.1": GOOD}
    with_canary(monkeypatch, world)
    world.rounds(3)
    assert world.observer.canary is not None
    world.observer.canary.accused["default", "10.0.0.1"] = turns.Accused(("default", "llama"), "")
    assert world.rounds(3)["state"] == "WrongBlocks"
    world.observer.canary.accused.clear()
    assert world.rounds()["state"] == "Hitting"
    assert world.observer.metrics == "# TYPE kv_offload_wrong_blocks gauge\n"


def test_only_engines_that_are_known_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, **CANARY)
    world.pages = {"10.0.0.1": GOOD, "10.0.0.2": None, "10.0.0.3": "up 1\n", "10.0.0.5": GOOD}
    world.pages["10.0.0.4"] = GOOD.replace("llama", "a b")  # no name to ask for
    asked = with_canary(monkeypatch, world)
    world.rounds(600)
    assert {request.target.place[1] for request in asked} == {"10.0.0.1", "10.0.0.5"}


def test_without_a_canary_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.pages = {"10.0.0.1": GOOD}
    assert "canary" not in world.rounds(10)["models"][0]
    assert world.observer.canary is None and world.observer.metrics == ""


HITS = '{"engines":"1","format":1,"models":[],"state":"Hitting"}'


@pytest.mark.parametrize(
    "written",
    [
        HITS.replace("[]", '[{"namespace":[],"model":{},"state":"Silent"}]'),
        HITS.replace("[]", '[{"namespace":"default","model":"llama","state":"Silent","at":[]}]'),
        HITS.replace("[]", '[{"namespace":"default","model":"llama","state":"Evil"}]'),
        HITS.replace("[]", '[{"namespace":"default","state":"Silent"}]'),
        HITS.replace('"1"', '"1","hits":{}'),
        HITS.replace('"1"', '"1","used":NaN'),
        HITS.replace('"1"', "9" * 5_000),
        HITS.replace('"Hitting"', "7"),
    ],
)
def test_a_document_of_a_stranger_is_written_over(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    world = World(monkeypatch, written)
    world.pages = {"10.0.0.1": vllm(prompt=50_000, lookups=50_000, hits=1_000, writes=1)}
    world.rounds(6)
    found = json.loads(world.map.state)
    assert (found["state"], found.get("hits"), "used" in found) == ("Hitting", "1", False)


def test_what_another_wrote_is_written_over_without_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.pages = {"10.0.0.1": vllm()}
    world.rounds(5)
    good = world.map.state
    assert good and world.map.writes == 1
    for other in ("", HITS):
        world.map.state = other
        world.rounds(30)
        assert world.map.state == good
    writes = world.map.writes
    world.rounds(60)
    assert world.map.writes == writes


# name: (pages before a restart of the observer, the page behind it) -> the state
RESTARTS = {
    "an engine that idles for hours": (
        [vllm(prompt=9_000, lookups=9_000, hits=4_000, writes=1)] * 300,
        "Idle",
    ),
    "hits that stopped": (
        [
            vllm(
                prompt=5_000 * n, device=1_000 * n, lookups=4_000 * n, hits=500, writes=n, blocks=9
            )
            for n in range(1, 140)
        ],
        "NeverRead",
    ),
    "hits": (
        [vllm(prompt=9_000 * n, lookups=9_000 * n, hits=400 * n, writes=1) for n in range(1, 9)],
        "Hitting",
    ),
}


@pytest.mark.parametrize("name", RESTARTS)
def test_a_new_observer_takes_no_old_hits_for_new_ones(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pages, state = RESTARTS[name]
    world = World(monkeypatch)
    for page in pages:
        world.pages = {"10.0.0.1": page}
        world.rounds()
    assert json.loads(world.map.state)["state"] == state
    writes = world.map.writes
    world.restart()
    world.rounds(20)
    assert json.loads(world.map.state)["state"] == state
    assert world.map.writes == writes


def test_many_pods_that_do_not_answer_hold_no_round_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those behind a NetworkPolicy, nor pods of others that answer after seconds."""
    for slow in (None, vllm(model="slow")):
        world = World(monkeypatch, interval=0.2)
        monkeypatch.setattr(main, "SLOW", 0.05)
        world.pages = {f"10.0.1.{n}": slow for n in range(80)}
        world.delays = dict.fromkeys(world.pages, 0.1)
        world.pages["10.9.9.9"] = vllm(prompt=9_000, lookups=9_000, hits=400, writes=1)
        begun = time.monotonic()
        world.rounds(5)
        assert time.monotonic() - begun < 5 * 0.6
        while "10.9.9.9" not in {place[1] for place in world.observer.engines}:
            world.rounds()
        assert time.monotonic() - begun < 15
        asked = world.observer.asked
        before = asked["default", "10.9.9.9"]
        world.rounds()
        assert asked["default", "10.9.9.9"] > before  # in every round from then on


def test_a_namespace_that_shuts_the_observer_out_is_soon_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, interval=0.2)
    world.pages = {f"10.0.1.{n}": None for n in range(400)}
    world.delays = dict.fromkeys(world.pages, 0.1)
    assert world.rounds(6)["state"] == "Unreachable"


def test_a_dns_that_does_not_answer_is_no_idle_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    hitting = vllm(prompt=50_000, lookups=50_000, hits=9_000, writes=1)
    world.pages = {"10.0.0.1": hitting}
    world.rounds(3)
    world.hosts = {"engines": None}
    assert world.rounds(60)["state"] == "Hitting"
    assert world.observer.ails() == "cannot resolve engines"
    world.hosts = {"engines": []}
    assert world.rounds(60)["state"] == "Idle"
    assert world.observer.ails() == ""


def test_shares_survive_engines_that_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an old engine that goes, only what it counted since the last look was in the share."""
    world = World(monkeypatch)
    world.pages = {"10.0.0.2": vllm(prompt=1_000_000, lookups=1_000_000, hits=1_000_000)}
    seen = []
    for number in range(1, 400):
        of_one = {"prompt": 9_000 * number, "lookups": 9_000 * number, "hits": 5_000 * number}
        world.pages["10.0.0.1"] = vllm(**of_one)
        seen.append(world.rounds()["hits"])
        if number == 215:
            del world.pages["10.0.0.2"]
    assert list(dict.fromkeys(seen)) == ["90", "50"]


PARTS = [{"namespace": "kv", "host": "parts", "ports": [2]}]


def test_the_share_of_a_store_that_is_away_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, parts=PARTS)
    world.hosts = {"parts": ["10.1.0.1"], "engines": []}
    world.pages = {"10.1.0.1": "master_total_capacity_bytes 200\nmaster_allocated_bytes 110\n"}
    assert world.rounds(2)["used"] == "50"
    world.pages = {}
    assert "used" not in world.rounds(150)


def test_a_part_that_is_not_read_has_written_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, parts=PARTS)
    world.hosts = {"parts": ["10.1.0.1", "10.1.0.2"], "engines": []}
    stores = "lmcache_mp_num_finished_stores_total 5\n"
    world.pages = {"10.1.0.1": stores, "10.1.0.2": stores}
    world.rounds()
    world.hosts["engines"] = ["10.0.0.1"]
    for number in range(1, 12):
        world.pages["10.0.0.1"] = vllm(prompt=5_000 * number, lookups=5_000 * number)
        world.pages["10.1.0.2"] = None if number % 2 else stores
        found = world.rounds()
    assert [row["cause"] for row in found["models"]] == ["NoWrites"]


@pytest.mark.parametrize(("transferred", "state"), [(0, "Silent"), (1, "Storing")])
def test_a_pair_that_hands_nothing_over_is_silent(
    monkeypatch: pytest.MonkeyPatch, transferred: int, state: str
) -> None:
    """Prefill engines never take blocks: a pair is judged by all of its engines."""
    world = World(monkeypatch, pairs=True)
    world.hosts = {"engines": ["10.0.0.1", "10.0.0.2"]}
    for number in range(1, 12):
        tokens = 1_000 * number
        world.pages["10.0.0.1"] = vllm(prompt=tokens, lookups=tokens, writes=0)
        world.pages["10.0.0.2"] = vllm(prompt=tokens, lookups=tokens, writes=transferred * number)
        found = world.rounds()
        assert found["state"] == (state if 2 * tokens >= 20_000 else "Storing")
    causes = [row.get("cause") for row in found["models"]]
    assert causes == (["NoTransfers"] if state == "Silent" else [None])


@pytest.mark.parametrize(("hides", "state"), [(True, "Storing"), (False, "NeverRead")])
@pytest.mark.parametrize("process", ["master_put_end_requests_total 5\n", None])
def test_sglang_counts_hits_of_lmcache_with_those_of_the_device(
    monkeypatch: pytest.MonkeyPatch, process: str | None, hides: bool, state: str
) -> None:
    """Whose tier it is does not depend on what answers: every part may be away at the start."""
    world = World(monkeypatch, parts=PARTS, hides_hits=hides)
    world.hosts = {"parts": ["10.1.0.1"], "engines": ["10.0.0.1"]}
    for number in range(1, 20):
        world.pages = {
            "10.0.0.1": sglang(prompt=5_000 * number, device=1_000 * number),
            "10.1.0.1": process,
        }
        found = world.rounds()
    assert found["state"] == state


def test_a_round_of_the_canary_goes_on_between_looks_until_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "BEAT", 0.01)
    world = World(monkeypatch, canary={"every": 60, "tokens": 512})
    world.rounds()
    observer, steps = world.observer, list[float]()

    def step(now: float, targets: list[turns.Target], silent: dict[Any, Any]) -> None:
        steps.append(now)
        if len(steps) == 3:
            raise InterruptedError

    assert observer.canary is not None
    monkeypatch.setattr(observer.canary, "step", step)
    with pytest.raises(InterruptedError):
        observer.wait(time.monotonic() + 60)
    observer.wait(time.monotonic())
    assert len(steps) == 3
