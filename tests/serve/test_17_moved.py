"""A consumer moves to another tier while conversations go on: the hits that this costs.

Conversations of a public trace (`--replay`), or drawn with the same shape. The engine of the second
half is another one, wired to another tier with an agent of its own: over the Redis that the first
tier has too, or over none. Compared is the second half of the same conversations without a move.
Both tiers name the Redis by its host: one that a tier runs itself has another cache identity.
"""

import contextlib
import copy
import json
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from function.names import remote_name
from tests.serve import author
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import Fleet
from tests.serve.pairs.lmcache import NodeServer
from tests.serve.wiring import Declared

SMALL = author.Pod(args=("--num-gpu-blocks-override", "160"))  # 10,240 tokens
BLOCK = 256  # tokens for each of the trace's blocks: a chunk
LONGEST = 30  # blocks of a prompt
CONVERSATIONS, TURNS = 12, 3  # at least so many turns of each
REQUESTS = 48
GOAL = 0.05  # of the hits without a move
Prompt = tuple[int, ...]


def drawn() -> list[Prompt]:
    """Conversations that take turns at random: one beginning for all, and a block or two a turn."""
    draw, fresh = random.Random(26), iter(range(1, 10**6))
    said: list[Prompt] = [(0, next(fresh), next(fresh)) for _ in range(CONVERSATIONS)]
    out = []
    for _ in range(REQUESTS):
        which = draw.randrange(CONVERSATIONS)
        more = [next(fresh) for _ in range(draw.randint(1, 2))]
        said[which] = (*said[which], *more)[:LONGEST]
        out.append(said[which])
    return out


def traced(path: Path) -> list[Prompt]:
    """The first conversations of a trace that have several turns, in the trace's order."""
    rows = [tuple(json.loads(line)["hash_ids"][:LONGEST]) for line in path.open()]
    turns: dict[int, int] = {}
    for row in rows:
        for block in row[1:2]:
            turns[block] = turns.get(block, 0) + 1
    chosen = [block for block, number in turns.items() if number >= TURNS][:CONVERSATIONS]
    return [row for row in rows if row[1:2] and row[1] in chosen][:REQUESTS]


def replay(engine: Engine, prompts: Iterable[Prompt], salt: int) -> int:
    """Ask each prompt and return the tokens that were found. `salt`: gives it words of its own."""
    cached = 0
    for blocks in prompts:
        text = "".join(prompt(salt * 10**6 + block, BLOCK) for block in blocks)
        cached += engine.ask(text + "?", tokens=4).cached
        time.sleep(0.2)  # for its blocks to arrive
    return cached


def beside(fleet: Fleet, tmp_path: Path, name: str, redis: str) -> Declared:
    """Another tier on the node: as the pair's, over that Redis or over none."""
    tier = copy.deepcopy(fleet.declared.document)
    tier["metadata"]["name"] = name
    metadata = fleet.declared.document["metadata"]
    prefix = remote_name(metadata["namespace"], metadata["name"])  # the first tier's, by default
    level = {"name": "shared", "type": "Redis", "redis": {"host": redis, "keyPrefix": prefix}}
    tier["spec"]["lmcache"]["l2"] = [level]
    if not redis:
        del tier["spec"]["lmcache"]["l2"]
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(tier))
    return Declared(path)


@pytest.mark.long
@pytest.mark.pairs("vllm-lmcache-redis")
def test_a_move_over_one_redis_costs_few_hits(
    fleet: Fleet, tmp_path: Path, proof, pytestconfig: pytest.Config
) -> None:
    trace = pytestconfig.getoption("replay")
    prompts = traced(trace) if trace else drawn()
    half = len(prompts) // 2
    redis = next(
        f"{it['metadata']['name']}.{it['metadata']['namespace']}.svc"
        for it in fleet.declared.manifests
        if it["kind"] == "Service" and it["spec"]["ports"][0]["name"] == "redis"
    )
    _ = fleet.tier

    @contextlib.contextmanager
    def engine_of(tier: Declared) -> Iterator[Engine]:
        """An engine that is wired to a tier with an agent of its own."""
        usual, agent = fleet.declared, NodeServer(fleet.site, tier)
        try:
            fleet.declared = tier
            engine = fleet.run("talker", fleet.wired({"main": SMALL}))
            engine.wait()
            yield engine
        finally:
            fleet.stop("talker")
            fleet.declared = usual
            agent.close()

    def second_half(salt: int, to: str, shared: str) -> int:
        """The tokens that were found, after a move to that tier; "" without one."""
        with engine_of(beside(fleet, tmp_path, f"first-{salt}", redis)) as engine:
            replay(engine, prompts[:half], salt)
            if not to:
                return replay(engine, prompts[half:], salt)
        with engine_of(beside(fleet, tmp_path, to, shared)) as engine:
            return replay(engine, prompts[half:], salt)

    stayed = second_half(1, "", "")
    moved = second_half(2, "moved", redis)
    alone = second_half(3, "alone", "")
    tokens = sum(len(blocks) * BLOCK + 1 for blocks in prompts[half:])
    lost, cold = (1 - found / stayed for found in (moved, alone))
    print(
        f"{len(prompts)} prompts, second half {tokens} tokens: {stayed} found without a move,"
        f" {moved} after one over the same Redis ({lost:.1%} lost), {alone} over none ({cold:.1%})"
    )
    assert stayed > tokens // 4
    assert lost <= GOAL
    assert cold > lost
    whose = "a public trace" if trace else "drawn conversations"
    proof(f"moved over the same Redis, {whose}", lost=f"{lost:.1%} of hits")
    proof(f"moved over none, {whose}", lost=f"{cold:.1%} of hits")
