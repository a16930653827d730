"""What an engine's own flags prove about its model: users set them for that kind alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from function.contract.engine import Engine
from function.contract.models.families import PIPELINE, of_architecture
from function.facts import Table


@dataclass(frozen=True)
class Flag:
    """A flag that proves a family.

    `name`: a flag, or the beginning of several with `*`. `values`: those that prove it, () for any
    value and for a switch.
    """

    engine: str
    name: str
    family: str
    source: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttentionBackend:
    """A word in the name of an attention backend, by a flag or else one of the variables."""

    word: str
    family: str
    flag: str
    variables: tuple[str, ...]
    source: str


FLAGS = Table(Flag, "models", "flags")
ATTENTION = Table(AttentionBackend, "models", "attention")


def of_flags(engine: Engine) -> Mapping[str, str]:
    """Return what the flags prove: {family: the flag}."""
    found: dict[str, str] = {}
    for row in FLAGS.rows:
        if row.engine != engine.name:
            continue
        for name, value in engine.flags.items():
            hit = name == row.name or (row.name[-1] == "*" and name.startswith(row.name[:-1]))
            if hit and (not row.values or value in row.values):
                found.setdefault(row.family, name)
    for attention in ATTENTION.rows:
        given = (engine.flag(attention.flag), *map(engine.env.get, attention.variables))
        if attention.word in (next(filter(None, given), None) or "").upper():
            found.setdefault(attention.family, attention.flag)
    if "diffusion" in engine.image.rpartition(":")[2]:
        found.setdefault(PIPELINE, "the image's tag")
    for architecture in _architectures(engine):
        if known := of_architecture(architecture):
            for family in sorted(known.families):
                found.setdefault(family, "--hf-overrides")
    return found


def _architectures(engine: Engine) -> list[str]:
    try:
        overrides = json.loads(engine.flag("--hf-overrides") or "{}")
    except (ValueError, RecursionError):
        return []
    names = overrides.get("architectures") if isinstance(overrides, dict) else None
    return [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
