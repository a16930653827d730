"""Two turns of a chat: with `generated: true` the tier has the first answer too."""

from pathlib import Path

import pytest
import yaml

from tests.serve.author import SERVED, USUAL
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import Fleet
from tests.serve.test_10_hits import settle
from tests.serve.wiring import Declared

ANSWER = 512  # tokens of the first answer
QUESTION = [97] * 40


def _ask(engine: Engine, tokens: list[int], count: int, salt: str = "") -> list[int]:
    """The tokens of an answer: what they spell need not be read back as the same tokens."""
    body = {"model": SERVED, "prompt": tokens, "max_tokens": count, "temperature": 0}
    body |= {"ignore_eos": True, "return_token_ids": True} | ({"cache_salt": salt} if salt else {})
    (choice,) = engine.post("/v1/completions", body, timeout=180)["choices"]
    return list(choice["token_ids"])


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "vllm-lmcache", "vllm-native")
def test_next_turn_finds_the_last_answer(fleet: Fleet, proof, tmp_path: Path) -> None:
    tier = yaml.safe_load(fleet.pair.tier.read_text())
    tier["spec"][tier["spec"]["backend"].lower()]["generated"] = True
    path = tmp_path / "tier.yaml"
    path.write_text(yaml.safe_dump(tier))
    _ = fleet.tier
    usual, fleet.declared = fleet.declared, Declared(path)
    engine = fleet.run("talker", fleet.wired({"main": USUAL}))
    fleet.declared = usual
    engine.wait()

    asked = [97 + number % 26 for number in prompt(0).encode()]
    answer = _ask(engine, asked, ANSWER)
    settle(fleet, engine)
    engine.forget()
    before = engine.external()
    turn = asked + answer + QUESTION
    said = _ask(engine, turn, 8)
    found = int(engine.external() - before)
    # The last token of an answer is never computed.
    assert found == fleet.pair.found(len(asked + answer))
    # The engine's own cache on the device gives the reference: the same cut, the same digits.
    assert _ask(engine, asked, ANSWER, salt="device") == answer
    assert _ask(engine, turn, 8, salt="device") == said
    proof("the next turn of a chat, generated: true", tokens=found)
    fleet.stop("talker")
