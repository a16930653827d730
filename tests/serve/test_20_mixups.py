"""A mix-up is impossible: engines that one model string and one tier bring together, and that make
other blocks of the same words, never get each other's, and say what they would say alone."""

import pytest

from tests.serve.author import SERVED, Pod
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import ADAPTERS, LLAMA, Fleet, Variant
from tests.serve.site import REVISIONS
from tests.serve.test_10_hits import hit, settle

HUB = (("HF_HOME", "/mnt/hub"),)
ADAPTED = "/mnt/adapters"


QWEN = Variant(Pod(claim="qwen"), seeds=(2, 3, 6))


def revision(name: str) -> Pod:
    """A model by its repository's name, at that revision (see `conftest.site`)."""
    args = ("--revision", REVISIONS[name.split()[0]])
    return Pod(model="acme/tiny", args=args, env=HUB, claims=(("/mnt/hub", "hub"),))


def adapted(claim: str) -> Pod:
    """The usual model with the adapter `sql` from that claim."""
    args = ("--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"sql={ADAPTED}/sql")
    return Pod(args=args, claims=((ADAPTED, claim),))


FLOAT = Variant(Pod(dtype="float32"), seeds=(4, 5))


def alone(fleet: Fleet, engine: Engine, seed: int, like: Variant = LLAMA, model: str = SERVED):
    """Ask with a prompt that the tier has from another: nothing is found, the words are its own."""
    before = engine.external()
    said = engine.ask(prompt(seed), model=model)
    assert engine.external() == before
    fleet.check(said, seed, variant=like, model=model)
    settle(fleet, engine)


def meet(fleet: Fleet, variant: Variant, there: int, back: int) -> None:
    """The usual engine and one of the variant ask for what the other has computed, both ways."""
    fleet.prepare(LLAMA, variant)
    stranger = fleet.start("stranger", variant.pod)
    (usual,) = fleet.ready("first")
    stranger.wait()
    for one, like, two, other_like, seed in (
        (usual, LLAMA, stranger, variant, there),
        (stranger, variant, usual, LLAMA, back),
    ):
        alone(fleet, one, seed, like)
        alone(fleet, two, seed, other_like)
    fleet.stop("stranger")


def test_other_weights_at_one_path_share_no_blocks(fleet: Fleet, proof) -> None:
    meet(fleet, QWEN, 2, 3)
    proof("one model string, other weights", tokens=0)


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "sglang-mooncake")
def test_other_dtype_shares_no_blocks(fleet: Fleet, proof) -> None:
    meet(fleet, FLOAT, 4, 5)
    proof("one model string, another dtype", tokens=0)


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "sglang-hicache-file")
def test_other_revision_shares_no_blocks(fleet: Fleet, proof) -> None:
    """Two revisions of one repository, and a third engine of the first: it alone finds blocks."""
    first, second, again = (fleet.start(name, revision(name)) for name in ("v1", "v2", "v1 again"))
    for engine in (first, second, again):
        engine.wait()
    alone(fleet, first, 6)  # v1 has the weights of the usual model
    alone(fleet, second, 6, QWEN)
    proof("one repository, the same revision", tokens=hit(fleet, again, 6))
    proof("one repository, another revision", tokens=0)
    fleet.stop("v1", "v2", "v1 again")


@pytest.mark.long
@pytest.mark.pairs("vllm-lmcache")
def test_adapters_share_no_blocks(fleet: Fleet, proof) -> None:
    """A LoRA adapter's blocks are its own: not the base model's, and not those of another adapter
    of the same name; another engine with the very same adapter finds them."""
    sql, other = (Variant(adapted(claim), ("sql",), (8,), (8,)) for claim in ADAPTERS)
    fleet.prepare(sql, other)
    first, again, stranger = (
        fleet.start(name, adapted(claim))
        for name, claim in (
            ("adapted", "adapters"),
            ("adapted again", "adapters"),
            ("otherwise adapted", "other-adapters"),
        )
    )
    for engine in (first, again, stranger):
        engine.wait()
    alone(fleet, first, 8)  # the base model
    alone(fleet, first, 8, sql, "sql")  # its adapter, over the same words
    alone(fleet, stranger, 8, other, "sql")
    before = again.external()
    said = again.ask(prompt(8), model="sql")
    tokens = int(again.external() - before)
    assert tokens == fleet.pair.found(said.prompt_tokens)
    fleet.check(said, 8, tokens, variant=sql, model="sql")
    proof("the same adapter", tokens=tokens)
    proof("another adapter of one name, and the base model", tokens=0)
    fleet.stop("adapted", "adapted again", "otherwise adapted")
