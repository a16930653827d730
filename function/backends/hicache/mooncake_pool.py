"""Storage `mooncake`: the pool of a Mooncake tier, or of external addresses."""

from typing import Any, Literal

from packaging.version import Version

from function.api.base import parse, present
from function.api.hicache_storage import HiCacheMooncakeExternal
from function.api.mooncake import MooncakeEngine, MooncakeExternal, MooncakeSpec
from function.api.placement import AgentImage
from function.api.tier import KVOffloadTierSpec
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.hierarchy import Storage
from function.backends.mooncake import conflicts, connector
from function.backends.mooncake import facts as mooncake
from function.contract.backend import Need
from function.contract.engine import Engine
from function.contract.injection import Json
from function.kube import access
from function.names import API_VERSION, remote_name

NEED = "store"
_METADATA: dict[str, Literal["p2p", "http", "etcd"]] = {"": "p2p", "http": "http", "etcd": "etcd"}
_PATH = f"{facts.SPEC}.storage.mooncake.storageTierRef.name"


def needs(tier: Tier) -> tuple[Need, ...]:
    """Return the tier of the pool, if it is one."""
    storage = tier.settings.storage
    if storage is None or storage.mooncake is None or storage.mooncake.storage_tier_ref is None:
        return ()
    name = storage.mooncake.storage_tier_ref.name
    return (Need(NEED, API_VERSION, "KVOffloadTier", name, tier.namespace, _PATH),)


def problem(tier: Tier) -> tuple[str, str] | None:
    """Return (path, problem) of the needed tier, None without a problem.

    A fleet's children look it up, not the fleet.
    """
    needed = tier.needed.get(NEED)
    if needed is None:
        return None
    who = f"KVOffloadTier {tier.namespace}/{access.text(needed, 'metadata', 'name')}"
    backend = access.text(needed, "spec", "backend")
    if backend != "Mooncake":
        return _PATH, f"{who} has backend {backend or 'none'}: name a tier of backend Mooncake"
    _, problems = parse(KVOffloadTierSpec, access.mapping(needed, "spec"))
    return (_PATH, f"{who} is not valid: see its condition Accepted") if problems else None


def tier_of(tier: Tier) -> mooncake.Tier:
    """Return the pool as a Mooncake tier: the needed one, or one of addresses only."""
    needed = tier.needed.get(NEED)
    if needed is not None:
        spec, _ = parse(KVOffloadTierSpec, access.mapping(needed, "spec"))
        namespace, name = (access.text(needed, "metadata", key) for key in ("namespace", "name"))
        found: Any = present(spec)
        return mooncake.Tier(name, namespace, remote_name(namespace, name), found, found.settings)
    external = present(present(present(tier.settings.storage).mooncake).external)
    # Nothing of the tier runs: what the pool runs is what somebody says of it, and no default.
    image = AgentImage(tag="unknown", version=external.version)
    there = tier.spec.model_copy(update={"image": image})
    return mooncake.Tier(tier.name, tier.namespace, tier.remote_name, there, _settings(external))


def version(tier: Tier) -> Version | None:
    """Return Mooncake's version in the pool's processes, None if unknown."""
    return mooncake.image(tier_of(tier)).version


def tenant(tier: Tier, namespace: str) -> str:
    """Return the tenant of an engine in the pool, "" without tenants."""
    known = tier.settings.storage is not None and tier.settings.storage.mooncake is not None
    return mooncake.tenant(tier_of(tier), namespace) if known else ""


def storage(tier: Tier, engine: Engine) -> Storage:
    """Return the storage; the pods carry the label that the pool's policy admits."""
    found = tier_of(tier)
    conflicts.CONFLICTS.check(found, engine)
    made = connector.storage(found, facts.pages(tier, engine), engine.tenant)
    pod = {key: value for key, value in made.pod.items() if key != "backend"}
    seconds = present(tier.settings.storage).wait_seconds
    if seconds and not made.extra["check_server"]:
        addresses = mooncake.master_address(found).removeprefix("etcd://").split(";")
        wait: Json = {"name": facts.AWAIT, "addresses": addresses, "seconds": seconds}
        pod["waits"] = mooncake.waits(found, seconds) or (wait,)
    return Storage(made.backend, made.extra, pod)


def _settings(external: HiCacheMooncakeExternal) -> MooncakeSpec:
    return MooncakeSpec(
        protocol=external.protocol,
        metadata=_METADATA[(external.metadata_server or "").partition("://")[0]],
        engine=MooncakeEngine(rdma_claim_template_name=external.rdma_claim_template_name),
        external=MooncakeExternal(
            master_address=external.master_address,
            admin_address=external.admin_address,
            metadata_server=external.metadata_server,
            cluster_id=external.cluster_id,
        ),
    )
