"""What the engine alone knows keeps blocks apart: engines of one composition's identity that make
other blocks of the same words miss each other's, and find their own after a restart.

Engines follow each other: a miss is seen in the counters, and a hit says what the first one said.
With 32 bits no rounding changes a word.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.serve.author import Pod
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import MODELS, Fleet
from tests.serve.models import LONG_ROPE
from tests.serve.test_10_hits import settle
from tests.serve.wiring import Wired

CLAIM, SEED = "resolved", 4
LONG = Pod(claim=CLAIM, dtype="float32")
SHORT = Pod(claim=CLAIM, dtype="float32", args=("--max-model-len", "4096"))


def unseen(wired: Wired, old: str, new: str) -> Wired:
    """The templates with an argument that came by a way which composition does not see."""
    templates = copy.deepcopy(dict(wired.templates))
    for template in templates.values():
        (container,) = (c for c in template["spec"]["containers"] if c["name"] == "engine")
        assert container["args"].count(old) == 1
        container["args"] = [new if word == old else word for word in container["args"]]
    return Wired(templates, wired.config_maps)


@contextmanager
def engine(fleet: Fleet, name: str, wired: Wired) -> Iterator[Engine]:
    _ = fleet.tier
    made = fleet.run(name, wired)
    made.wait()
    yield made
    settle(fleet, made)
    pod = fleet.engines.pop(name).pod
    # SGLang with two stages does not end by itself on a CPU.
    stages = any("--pp-size" in c.get("args", ()) for c in pod.spec["containers"])
    (fleet.site.remove if stages else fleet.site.retire)(pod)


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "vllm-native", "vllm-lmcache")
def test_other_blocks_of_one_identity_are_misses(fleet: Fleet, proof) -> None:
    """LongRoPE's factors go by --max-model-len; a dtype comes by a way that composition does not
    see; weights are replaced in place, and put back."""
    fleet.site.model(CLAIM, MODELS["llama"], LONG_ROPE)
    usual, short = (fleet.wired({"main": pod}) for pod in (LONG, SHORT))
    with engine(fleet, "usual", usual) as first:
        said = first.ask(prompt(SEED))
        assert first.external() == 0
    with engine(fleet, "short", short) as other:
        other.ask(prompt(SEED))
        assert other.external() == 0
        proof("LongRoPE, another --max-model-len", tokens=0)
    with engine(fleet, "half", unseen(usual, "float32", "bfloat16")) as other:
        other.ask(prompt(SEED))
        assert other.external() == 0
        proof("a dtype that composition cannot see", tokens=0)
    fleet.site.model(CLAIM, MODELS["qwen"], LONG_ROPE)
    with engine(fleet, "replaced", usual) as other:
        other.ask(prompt(SEED))
        assert other.external() == 0
        proof("weights replaced in place", tokens=0)
    fleet.site.model(CLAIM, MODELS["llama"], LONG_ROPE)
    with engine(fleet, "again", usual) as again:
        found = again.ask(prompt(SEED))
        assert again.external() == fleet.pair.found(found.prompt_tokens)
        assert found.alike(said)
        proof("weights put back, a restart", tokens=int(again.external()))


# SGLang wants a place for the threads of each rank. Stages cannot share one matrix of words.
PIPELINE = Pod(
    claim=CLAIM,
    dtype="float32",
    args=("--pp-size", "2"),
    env=(("SGLANG_CPU_OMP_THREADS_BIND", "0|0"),),
)
UNTIED = {"tie_word_embeddings": False}


@pytest.mark.long
@pytest.mark.pairs("sglang-hicache-file", "sglang-mooncake")
@pytest.mark.parametrize(
    "pod", [Pod(claim=CLAIM, dtype="float32"), PIPELINE], ids=["one stage", "two stages"]
)
def test_pages_of_other_weights_are_misses(fleet: Fleet, proof, pod: Pod) -> None:
    """SGLang: weights are replaced in place, and put back; a dtype comes unseen."""
    of = " (two stages)" if pod is PIPELINE else ""
    fleet.site.model(CLAIM, MODELS["llama"], UNTIED)
    usual = fleet.wired({"main": pod})
    with engine(fleet, "usual", usual) as first:
        said = first.ask(prompt(SEED))
        assert first.external() == 0
    with engine(fleet, "half", unseen(usual, "float32", "bfloat16")) as other:
        other.ask(prompt(SEED))
        assert other.external() == 0
        proof(f"a dtype that composition cannot see{of}", tokens=0)
    fleet.site.model(CLAIM, MODELS["qwen"], UNTIED)
    with engine(fleet, "replaced", usual) as other:
        other.ask(prompt(SEED))
        assert other.external() == 0
        proof(f"weights replaced in place{of}", tokens=0)
    fleet.site.model(CLAIM, MODELS["llama"], UNTIED)
    with engine(fleet, "again", usual) as again:
        found = again.ask(prompt(SEED))
        assert again.external() == fleet.pair.found(found.prompt_tokens)
        assert found.alike(said)
        proof(f"weights put back, a restart{of}", tokens=int(again.external()))
