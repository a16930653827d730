"""An engine whose image holds another release of a package serves hits with the payload's."""

from dataclasses import replace

import pytest

from tests.serve import author, standins
from tests.serve.engine import prompt
from tests.serve.fleet import LLAMA, Fleet
from tests.serve.test_10_hits import fill, hit, settle
from tests.serve.wiring import TIERS, Declared, Wired


@pytest.mark.pairs("vllm-mooncake", "vllm-lmcache")
@pytest.mark.long(but="vllm-mooncake")
def test_engine_of_an_older_image_gets_hits(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    _ = fleet.tier
    fleet.site.payload()
    engine = fleet.site.engine(_wired(fleet), "older", "vllm+older", fleet.pair.speaks)
    fleet.engines["older"] = engine
    engine.wait()
    fill(fleet, engine, 6)
    engine.forget()
    engine.ask(prompt(9))  # another's blocks lie then where its own did
    settle(fleet, engine)
    engine.forget()
    proof("an engine of an older image, with a payload", tokens=hit(fleet, engine, 6))
    fleet.stop("older")


def _wired(fleet: Fleet) -> Wired:
    """The pod of an older image, wired by the pair's tier with a payload."""
    pair = fleet.pair
    tier = Declared(TIERS / f"{pair.tier.stem}-payload.yaml")
    pod = replace(author.USUAL, env=pair.env, args=pair.args)
    wired = tier.wire({"main": author.vllm_of_an_older_image(pod)})
    (template,) = wired.templates.values()
    for stand_in in (*pair.stand_ins, standins.PAYLOAD):
        template = stand_in.apply(template)
    return Wired({"main": template}, wired.config_maps)
