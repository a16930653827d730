"""`spec.events` of a KVOffloadTier: the block events that its engines publish.

Facts are of vLLM 0.20 to 0.33, SGLang 0.5.5 to 0.5.23 and llm-d's router of August 2026.
"""

from typing import Annotated

from pydantic import Field

from function.api.base import ApiModel, FieldRule, rows


class Events(ApiModel):
    """Block events of engines, for a router that prefers engines that hold a prefix.

    A pod's own `--kv-events-config` stays as it is; such a pod publishes no second stream.
    """

    port: Annotated[int, Field(ge=1024, le=65000)] = 5557
    replay_port: Annotated[int, Field(ge=1024, le=65000)] | None = None
    block_tokens: Annotated[int, Field(ge=1, le=4096)] | None = None
    hash_seed: Annotated[int, Field(ge=0, le=4294967295)] | None = None

    rules = rows(FieldRule, __file__, "Events")
