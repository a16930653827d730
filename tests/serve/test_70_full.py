"""A tier that is full: requests are answered, texts are right, and what was kept last is found."""

import subprocess
from pathlib import Path

import pytest

from tests.serve.author import USUAL
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import LLAMA, STEADY, Fleet
from tests.serve.test_10_hits import settle

DISK = "4m"  # one prompt's blocks and a third of the next one's
MEMORY = 16 * 2**20  # bytes: five prompts


def answers(fleet: Fleet, engine: Engine) -> int:
    """Ask for more prompts than fit, twice: how many tokens were found the second time."""
    for seed in STEADY:
        assert engine.ask(prompt(seed)).alike(fleet.reference(seed))
        settle(fleet, engine)
    engine.forget()
    before = engine.external()
    for seed in reversed(STEADY):
        assert engine.ask(prompt(seed)).alike(fleet.reference(seed))
    return int(engine.external() - before)


@pytest.mark.long
@pytest.mark.pairs("vllm-native", "sglang-hicache-file", "sglang-hicache-nixl")
def test_full_disk_costs_no_request(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    wired = fleet.wired({"main": USUAL})
    volume = shared(fleet, wired.templates["main"])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", volume], check=True)
    try:
        engine = fleet.run("full disk", wired)
        engine.wait()
        found = answers(fleet, engine)
        assert 0 < found < len(STEADY) * fleet.pair.found(len(prompt(0)))
        assert engine.pod.ready
        fleet.stop("full disk")
    finally:
        subprocess.run(["umount", volume], check=True)
    proof("a full disk", requests="all answered", texts="right")


def shared(fleet: Fleet, template: dict) -> Path:
    """The node's folder behind the claim of the tier's files."""
    (claim,) = (
        volume["persistentVolumeClaim"]["claimName"]
        for volume in template["spec"]["volumes"]
        if volume["name"].startswith("kv-offload-") and "persistentVolumeClaim" in volume
    )
    return fleet.site.node.volume("claim", claim)


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "vllm-lmcache", "sglang-mooncake")
def test_full_memory_costs_no_request(fleet: Fleet, proof) -> None:
    """The tier's memory holds five prompts of eight; it is small until the pair ends."""
    (engine,) = fleet.ready("first")
    part = fleet.pair.parts[-1]
    fleet.tier.memory = MEMORY
    fleet.tier.replace(part)
    found = answers(fleet, engine)
    assert 0 < found < len(STEADY) * fleet.pair.found(len(prompt(0)))
    assert fleet.tier.parts[part].ready and engine.pod.ready
    assert fleet.tier.parts[part].containers[part].exit_codes == []
    proof("a full memory", requests="all answered", texts="right")
