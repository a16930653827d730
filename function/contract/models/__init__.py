"""What kind of model an engine serves: declared, proven by its flags, by its name, or unknown.

A model string such as `/mnt/models` says nothing. A path's last element may prove that a model is
one of those that need care, never that it needs none: a folder may have any name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from function.contract.engine import Engine
from function.contract.models.families import (
    DENSE,
    FAMILIES,
    LAYOUTS,
    LONG_ROPE,
    UNKNOWN,
    has_long_rope,
    of_name,
)
from function.contract.models.flags import of_flags

__all__ = ["FAMILIES", "UNKNOWN", "Model", "classify"]


@dataclass(frozen=True)
class Model:
    """The families of a model.

    `families`: of `FAMILIES`; without a layout among them (dense, hybrid, mla, sparse, sliding)
    UNKNOWN stands in its place. `because`: {family: what said so}, for messages and the record.
    """

    families: frozenset[str]
    because: Mapping[str, str]

    @property
    def known(self) -> bool:
        """Whether it is known what the layers are."""
        return UNKNOWN not in self.families


def classify(engine: Engine, declared: frozenset[str] = frozenset()) -> Model:
    """Return the families of the engine's model.

    `declared`: by `modelplane.ai/kv-offload-model-family`; it decides the layout, and what the
    flags prove is added to it.
    """
    because = dict.fromkeys(sorted(declared), "declared")
    proven = of_flags(engine)
    for family, flag in proven.items():
        because.setdefault(family, flag)
    names = (
        (engine.model, "the model's name"),
        (engine.flag("--served-model-name") or "", "the served name"),
    )
    for text, what in names:
        if has_long_rope(text):
            because.setdefault(LONG_ROPE, what)
    for text, what in () if declared else names:
        row = of_name(text) if text else None
        if row is None:
            continue
        # A local name may be anything: only a published one proves that there is no catch.
        plain = _published(text) and not because.keys() & set(LAYOUTS)
        for family in sorted(row.families if plain else row.families - {DENSE}):
            because.setdefault(family, what)
        break
    if not any(family in LAYOUTS for family in because):
        because[UNKNOWN] = ""
    return Model(frozenset(because), because)


def _published(model: str) -> bool:
    """Whether a model string is of the form of a published one: "owner/name"."""
    owner, slash, name = model.partition("/")
    return bool(owner and slash and name) and "/" not in name and owner[0] not in "./~$"


def rope_follows_length(model: str) -> bool | None:
    """Return whether rope factors follow the context length; None where the name tells nothing."""
    if has_long_rope(model):
        return True
    return False if _published(model) and of_name(model) else None
