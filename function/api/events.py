"""`spec.events` of a KVOffloadTier: what its engines publish of their blocks.

Facts are of vLLM 0.20 to 0.33, SGLang 0.5.5 to 0.5.23 and llm-d's router of August 2026.
"""

from typing import Annotated

from pydantic import Field

from function.api.base import ApiModel, Rule


class Events(ApiModel):
    """What engines publish of their blocks, for a router that sends a request where its prefix is.

    A pod's own `--kv-events-config` stays as it is, and nothing is published twice.
    """

    port: Annotated[int, Field(ge=1024, le=65000)] = Field(
        default=5557,
        description="Port of the engines' pods at which events are published; each rank of data "
        "parallelism adds its number.",
    )
    replay_port: Annotated[int, Field(ge=1024, le=65000)] | None = Field(
        default=None,
        description="Port at which a router asks for events that it missed; each rank of data "
        "parallelism adds its number. Absent: none.",
    )
    block_tokens: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None,
        description="Tokens of a block (--block-size, --page-size) in every engine of the tier, "
        "for routers that compute an engine's own hashes; an engine with another is refused. "
        "Absent: each engine's own.",
    )
    hash_seed: Annotated[int, Field(ge=0, le=4294967295)] | None = Field(
        default=None,
        description="PYTHONHASHSEED of every engine of the tier, for the same routers; an engine "
        "with another is refused. Absent: each engine's own.",
    )

    rules = (
        Rule(
            "!has(self.replayPort) || self.replayPort != self.port",
            "replayPort must be another port than port",
            "replayPort",
        ),
    )
