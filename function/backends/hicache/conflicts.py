"""Conflicts of an engine pod with HiCache: the cases of facts.yaml."""

from pathlib import Path

from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.hierarchy import plugins_without_ours
from function.contract.conflicts import Conflicts, unknown_identity
from function.contract.engine import Engine


def _plain_decode(_: Tier, engine: Engine) -> str | None:
    return "" if facts.is_plain_decode(engine) else None


def _pods_apart(tier: Tier, engine: Engine) -> str | None:
    storage = tier.settings.storage
    own = storage is not None and storage.file is not None and storage.file.claim is None
    return str(engine.pods) if own and engine.pods > 1 else None


def _missing_identity(tier: Tier, engine: Engine) -> str | None:
    storage = tier.settings.storage
    unsaid = storage is not None and storage.identity is None
    return engine.identity if unsaid and facts.holds_one_identity(tier) else None


def _other_identity(tier: Tier, engine: Engine) -> str | None:
    storage = tier.settings.storage
    if storage is None or not facts.holds_one_identity(tier) or storage.identity == engine.identity:
        return None
    return f"{storage.identity}, and this engine's is {engine.identity}"


def _other_namespace(tier: Tier, engine: Engine) -> str | None:
    evictor = tier.settings.storage.evictor if tier.settings.storage is not None else None
    if evictor is None or engine.namespace in ("", evictor.namespace):
        return None
    return (
        f"The tier's evictor runs in namespace {evictor.namespace}, the engine's pods in "
        f"{engine.namespace}: nothing would bound their files"
    )


CONFLICTS = Conflicts(
    Path(__file__).with_name("facts.yaml"),
    _other_namespace,
    _other_identity,
    _missing_identity,
    _plain_decode,
    _pods_apart,
    plugins_without_ours,
    unknown_identity,
)
