"""Families of models: what their layers keep between tokens, which is what a KV tier moves.

The rows, by architecture and by name, are in function/facts/models.yaml.
"""

import re
from dataclasses import dataclass
from functools import cache

from function.facts import Table

DENSE = "dense"  # one kind of attention, one KV cache group
HYBRID = "hybrid"  # recurrent state (mamba, GDN, KDA, linear attention) beside attention
MLA = "mla"  # latent attention: the same bytes on every tensor-parallel rank
SPARSE = "sparse"  # attention by an index (DSA and its like): KV cache groups of several shapes
SLIDING = "sliding"  # a window on some layers
MULTIMODAL = "multimodal"
SPECULATIVE = "speculative"
POOLING = "pooling"
ENCODER = "encoder"  # attends in both directions, or across: a prefix says nothing of its blocks
PIPELINE = "pipeline"  # diffusion, or several stages of an engine each
LONG_ROPE = "longrope"  # rope factors follow a length
UNKNOWN = "unknown"

# What the layers are, and what is done with the model beside it.
LAYOUTS = (DENSE, HYBRID, MLA, SPARSE, SLIDING)
USES = (MULTIMODAL, SPECULATIVE, POOLING, ENCODER, PIPELINE, LONG_ROPE)
FAMILIES = (*LAYOUTS, *USES)


@dataclass(frozen=True)
class Name:
    """Models whose string matches `pattern` (search) are of `families`."""

    pattern: str
    families: frozenset[str]
    source: str


@dataclass(frozen=True)
class Architectures:
    families: frozenset[str]
    names: frozenset[str]
    source: str


ARCHITECTURES = Table(Architectures, "models", "architectures")
# The first row that matches decides. long_rope: rope factors follow the context length.
_NAMES = {section: Table(Name, "models", section) for section in ("names", "long_rope")}
NAMES = _NAMES["names"]
_JOINED = re.compile(r"[._]")


def of_name(model: str) -> Name | None:
    """Return the row of a model string, e.g. "Qwen/Qwen3.6-27B"; None where no row matches.

    Only the last element of a path counts: a folder above it proves nothing.
    """
    return _first("names", model)


def has_long_rope(model: str) -> bool:
    """Return whether a model string is that of one with LongRoPE."""
    return _first("long_rope", model) is not None


def _first(section: str, model: str) -> Name | None:
    text = _JOINED.sub("-", model.strip().rstrip("/").lower()[-256:])
    text = text.rpartition("/")[2] or text
    return next((row for pattern, row in _compiled(section) if pattern.search(text)), None)


@cache
def _compiled(section: str) -> tuple[tuple[re.Pattern[str], Name], ...]:
    return tuple((re.compile(row.pattern), row) for row in _NAMES[section])


def of_architecture(name: str) -> Architectures | None:
    """Return the row of an entry of `architectures` in a config.json."""
    return next((row for row in ARCHITECTURES if name in row.names), None)
