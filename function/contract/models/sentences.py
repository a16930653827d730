"""Rows and sentences that several connectors have in common.

What was read: the classes of vLLM 0.20.0 to 0.33.0 that declare SupportsHMA, and its scheduler.
"""

from function.contract.models.families import ENCODER, PIPELINE
from function.contract.models.support import FamilyRow, Support

HMA = "vLLM's SupportsHMA of the connector's class; vllm 41830, PR 41847"
NO_WORD = "no statement upstream"
UNTRIED = "nobody upstream says that it was tried: compare answers with and without the tier"


def fails_at_start(versions: str, since: str) -> str:
    """A hybrid model where the connector has no SupportsHMA."""
    return (
        f"with this connector vLLM {versions} turns its hybrid memory allocator off, and the "
        f"engine fails at start; use vLLM {since} or newer"
    )


def more_memory(way_out: str) -> str:
    """A model with sliding windows where the connector has no SupportsHMA."""
    return (
        "with this connector vLLM turns its hybrid memory allocator off, and every layer takes the "
        f"memory of full attention: it may not fit; {way_out}"
    )


def no_prefix(connector: str, engine: str) -> tuple[FamilyRow, ...]:
    """What no tier of any backend can serve: there is no prefix whose blocks could be found."""
    return (
        FamilyRow(
            connector, engine, frozenset((ENCODER,)), Support.REFUSED,
            "vLLM's scheduler stops for encoder-decoder models with a KV connector; an encoder's "
            "states hang on the whole input",
            "it has an encoder, whose states hang on the whole input and not on a prefix: there is "
            "nothing that a tier could keep. Remove the request for a tier",
        ),
        FamilyRow(
            connector, engine, frozenset((PIPELINE,)), Support.REFUSED,
            "SGLang's multimodal_gen and vLLM-Omni: stages with a configuration of their own",
            "a pipeline of stages has no KV cache that the engine's flags speak of, and its own "
            "parser stops at them. Remove the request for a tier",
        ),
    )  # fmt: skip
