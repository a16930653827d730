"""`spec.events` of a KVOffloadTier: the block events that its engines publish.

Facts are of vLLM 0.20 to 0.33, SGLang 0.5.5 to 0.5.23 and llm-d's router of August 2026.
"""

from typing import Annotated

from pydantic import Field

from function.api.base import ApiModel, FieldRule


class Events(ApiModel):
    """Block events of engines, for a router that prefers engines that hold a prefix.

    A pod's own `--kv-events-config` stays as it is; such a pod publishes no second stream.
    """

    port: Annotated[int, Field(ge=1024, le=65000)] = 5557
    """Port at which engines publish events; each data-parallel rank adds its number."""
    replay_port: Annotated[int, Field(ge=1024, le=65000)] | None = None
    """Port at which a router requests missed events; each data-parallel rank adds its number.
    Absent: no replay."""
    block_tokens: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Tokens per block (--block-size, --page-size) of every engine, for routers that compute block
    hashes themselves. An engine with another value is refused. Absent: each engine's own."""
    hash_seed: Annotated[int, Field(ge=0, le=4294967295)] | None = None
    """PYTHONHASHSEED of every engine, for the same routers. An engine with another value is
    refused. Absent: each engine's own."""

    rules = (
        FieldRule(
            "!has(self.replayPort) || self.replayPort != self.port",
            "replayPort must differ from port",
            "replayPort",
        ),
    )
