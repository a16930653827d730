"""HiCache: SGLang's hierarchical cache of GPU, host memory and a storage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from function.api.engines import SGLANG
from function.api.hicache import HiCacheSpec
from function.backends import hierarchy_rows, volumes
from function.backends.hicache import agreement, checks, connector, evict, mooncake_pool, storages
from function.backends.hicache.facts import Tier, holds_one_identity
from function.backends.mooncake import BACKEND as MOONCAKE
from function.backends.mooncake import connector as mooncake_connector
from function.backends.mooncake import network
from function.contract.backend import Backend, Description
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.recorded import Allowance
from function.contract.rules import Alert
from function.facts import Table
from function.problems import Refused
from function.reasons import Reason

_UNKNOWN_POOL_VERSION = (
    "The pool's Mooncake version is unknown: with another release line in the engine's image every "
    "write fails. Set spec.hicache.storage.mooncake.external.version"
)
_ROWS = hierarchy_rows.of_storage(Path(__file__).with_name("facts.yaml"))
# A HiCache tier sizes the host pool itself: its caution takes the place of Mooncake's.
_OF_MOONCAKE = tuple(
    replace(row, cautions=_ROWS.gate[0].cautions)
    for row in MOONCAKE.rows.gate
    if row.engine == SGLANG
)


@dataclass(frozen=True)
class HiCache(Backend[HiCacheSpec]):
    """The HiCache backend (see `function.contract.backend.Backend`)."""

    name: str = "HiCache"
    field: str = "hicache"
    allows: Allowance = connector.ALLOWS
    rows = _ROWS
    alerts = Table(Alert, Path(__file__).with_name("alerts.yaml"), "alerts")

    problems = staticmethod(checks.problems)
    needs = staticmethod(mooncake_pool.needs)
    parts = staticmethod(evict.parts)

    def describe(self, tier: Tier) -> Description:
        storage = tier.settings.storage
        own = storage is None or (storage.file is not None and storage.file.claim is None)
        return Description(
            pod_security=volumes.pod_security(evict.bounded(tier)),
            endpoints=_endpoints(tier),
            warnings=tuple(checks.warnings(tier)),
            outlives_pods=not own,
            spans_clusters=storage is not None and storages.spans_clusters(tier),
            one_identity=holds_one_identity(tier),
        )

    def gate(self, tier: Tier, engine: Engine) -> Question:
        """Return the gate's question: the storage's row and its version in the tier.

        Raise Refused for an engine other than SGLang, with an alternative.
        """
        if engine.name != SGLANG:
            raise Refused(Reason.ENGINE_UNSUPPORTED, _other_engine(tier, engine))
        name = storages.name(tier)
        storage = tier.settings.storage
        pool = storage is not None and storage.mooncake is not None
        version = mooncake_pool.version(tier) if pool else None
        row = f"HiCache/{name}" if name else "HiCache"
        return Question(
            row,
            engine,
            _ROWS + Rows(_OF_MOONCAKE),
            version,
            (mooncake_connector.pairing(mooncake_pool.tier_of(tier)),)
            if version is not None
            else (),
            notes=(_UNKNOWN_POOL_VERSION,) if pool and version is None else (),
        )

    inject = staticmethod(connector.inject)

    def agree(self, tier: Tier, engines: Sequence[Engine]) -> None:
        """Raise Refused where no prefill engine finds what decode engines offload."""
        agreement.check(tier, engines)

    def assumes(self, tier: Tier, engine_name: str) -> Mapping[str, str]:
        """Return the tier's own page and layout flags, which the keys already contain."""
        return connector.assumes(tier) if engine_name == SGLANG else {}

    tenant = staticmethod(mooncake_pool.tenant)
    pinned = staticmethod(agreement.pinned)


def _endpoints(tier: Tier) -> dict[str, str]:
    storage = tier.settings.storage
    if storage is None:
        return {}
    if storage.mooncake is not None:
        return network.endpoints(mooncake_pool.tier_of(tier))
    if storage.hf3fs is not None:
        return {"metadata": f"http://{storages.metadata_server(tier)}"}
    if storage.nixl is not None and storage.nixl.obj is not None:
        return {"objects": f"{storages.endpoint(tier)}/{storage.nixl.obj.bucket}"}
    return {}


def _other_engine(tier: Tier, engine: Engine) -> str:
    """Return what serves an engine other than SGLang: the pool itself, if any."""
    need = next(iter(mooncake_pool.needs(tier)), None)
    pool = f" KVOffloadTier {need.namespace}/{need.object_name} itself, or" if need else ""
    return (
        f"HiCache works with SGLang only; this engine is {engine.name}. Use{pool} a tier of "
        "backend Native, Mooncake or LMCache."
    )


BACKEND = HiCache()
