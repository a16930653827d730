"""HiCache: SGLang's hierarchical cache of GPU, host memory and a storage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from function.api.engines import SGLANG
from function.api.hicache import HiCacheSpec
from function.backends import hierarchy_rows, volumes
from function.backends.hicache import agreement, checks, connector, evict, storages
from function.backends.hicache.facts import Tier
from function.backends.hicache.storages import hf3fs, mooncake, objects
from function.backends.mooncake import BACKEND as MOONCAKE
from function.backends.mooncake import connector as mooncake_connector
from function.backends.mooncake import network
from function.contract.backend import Defaults, Description, Need, Part, Pinned, Variant
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.injection import Injection
from function.contract.recorded import Allowance
from function.problems import Problem, Refused
from function.reasons import Reason

_UNKNOWN_POOL_VERSION = (
    "The pool's Mooncake version is unknown: with another release line in the engine's image every "
    "write fails. Set spec.hicache.storage.mooncake.external.version"
)
_HOST = {"host": {"sizeGiB": 1}}
_ROWS = hierarchy_rows.of_storage(Path(__file__).with_name("facts.yaml"))
# A HiCache tier sizes the host pool itself: its caution takes the place of Mooncake's.
_OF_MOONCAKE = tuple(
    replace(row, cautions=_ROWS.gate[0].cautions)
    for row in MOONCAKE.rows.gate
    if row.engine == SGLANG
)


@dataclass(frozen=True)
class HiCache(Defaults[HiCacheSpec]):
    """The HiCache backend (see `function.contract.backend.Backend`)."""

    name: str = "HiCache"
    field: str = "hicache"
    allows: Allowance = connector.ALLOWS
    rows = _ROWS

    def variants(self) -> tuple[Variant, ...]:
        """Return one variant: storages hardly change which engines it takes."""
        return (Variant("HiCache", {"backend": "HiCache", "hicache": _HOST}),)

    def kinds(self) -> tuple[Variant, ...]:
        """Return the host pool alone, and with files below it."""
        files = {**_HOST, "storage": {"type": "File", "file": {"sizeGiB": 1}}}
        return (
            *self.variants(),
            Variant("HiCache, File", {"backend": "HiCache", "hicache": files}),
        )

    def problems(self, tier: Tier) -> list[Problem]:
        return checks.problems(tier)

    def needs(self, tier: Tier) -> tuple[Need, ...]:
        """Return the Mooncake tier that stores its pages, if it names one."""
        return mooncake.needs(tier)

    def parts(self, tier: Tier) -> list[Part]:
        """Return the evictor of files, if the tier asks for one."""
        return evict.parts(tier)

    def describe(self, tier: Tier) -> Description:
        storage = tier.settings.storage
        own = storage is None or (storage.file is not None and storage.file.claim is None)
        return Description(
            pod_security=volumes.pod_security(evict.bounded(tier)),
            endpoints=_endpoints(tier),
            warnings=tuple(checks.warnings(tier)),
            outlives_pods=not own,
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
        version = mooncake.version(tier) if pool else None
        row = f"HiCache/{name}" if name else "HiCache"
        return Question(
            row,
            engine,
            _ROWS + Rows(_OF_MOONCAKE),
            version,
            (mooncake_connector.pairing(mooncake.pool(tier)),) if version is not None else (),
            notes=(_UNKNOWN_POOL_VERSION,) if pool and version is None else (),
        )

    def inject(self, tier: Tier, engine: Engine) -> Injection:
        return connector.inject(tier, engine)

    def agree(self, tier: Tier, engines: Sequence[Engine]) -> None:
        """Raise Refused where no prefill engine finds what decode engines offload."""
        agreement.check(tier, engines)

    def assumes(self, tier: Tier, engine_name: str) -> Mapping[str, str]:
        """Return the tier's own page and layout flags, which the keys already contain."""
        return connector.assumes(tier) if engine_name == SGLANG else {}

    def tenant(self, tier: Tier, namespace: str) -> str:
        """Return the consumer's tenant in a Mooncake pool."""
        return mooncake.tenant(tier, namespace)

    def pinned(self, tier: Tier) -> tuple[Pinned, ...]:
        """Return the settings with which a store of one identity was filled."""
        return agreement.pinned(tier)


def _endpoints(tier: Tier) -> dict[str, str]:
    storage = tier.settings.storage
    if storage is None:
        return {}
    if storage.mooncake is not None:
        return network.endpoints(mooncake.pool(tier))
    if storage.hf3fs is not None:
        return {"metadata": f"http://{hf3fs.address(tier)}"}
    if storage.nixl is not None and storage.nixl.obj is not None:
        return {"objects": f"{objects.endpoint(tier)}/{storage.nixl.obj.bucket}"}
    return {}


def _other_engine(tier: Tier, engine: Engine) -> str:
    """Return what serves an engine other than SGLang: the pool itself, if any."""
    need = next(iter(mooncake.needs(tier)), None)
    pool = f" KVOffloadTier {need.namespace}/{need.object_name} itself, or" if need else ""
    return (
        f"HiCache works with SGLang only; this engine is {engine.name}. Use{pool} a tier of "
        "backend Mooncake or LMCache."
    )


BACKEND = HiCache()
