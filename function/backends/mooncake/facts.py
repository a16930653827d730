"""Names, addresses, the image and versions of Mooncake.

Flags, endpoints and behaviour are those of mooncake-transfer-engine 0.3.13.post1.
"""

from packaging.version import Version

from function.api.base import present
from function.api.mooncake import MooncakeSpec
from function.api.mooncake_tenants import DEFAULT_TENANT as DEFAULT_TENANT
from function.contract.backend import Tier as AnyTier
from function.contract.image import Image
from function.contract.injection import Json

UID = 65532  # the user of upstream's image
REST_PORT = 8088  # the store's own API; nobody but its preStop hook needs it
ETCD_CLIENT, ETCD_PEER = 2379, 2380

STOCK_REPOSITORY = "kvcacheai/mooncake"
STOCK_TAG = "0.3.13.post1"
OLDEST = Version("0.3.13")
NEWEST = Version("0.3.13.post1")

# Features of facts.yaml. Every process begins its chains of block hashes alike; before, with random
# bytes of its own unless PYTHONHASHSEED is set.
SEEDED = "fixed-seed"
# The scheduler does not wait for a look-up: other requests go on.
LOOKUP = "lookup_async"
# A client may say whose blocks it writes.
TENANT = "tenant_id"

P2P = "P2PHANDSHAKE"
# Init containers that wait for what an engine cannot start without.
AWAIT = "kv-offload-await-store"
AWAIT_MASTER = "kv-offload-await-master"
DEFAULT_CLUSTER_ID = "mooncake_cluster"


Tier = AnyTier[MooncakeSpec]


def image(tier: Tier) -> Image:
    """Return the image of a tier's processes; default: the stock image."""
    return Image.of(tier.spec.image, STOCK_REPOSITORY, STOCK_TAG)


def line(version: Version) -> str:
    """Return the release line of a version.

    Processes of two lines do not interoperate: writes fail.
    """
    return ".".join(str(part) for part in (*version.release, 0, 0)[:3])


def name(tier: Tier, component: str) -> str:
    """Return the name of an object of the tier on the workload cluster."""
    return f"{tier.remote_name}-{component}"


def master_host(tier: Tier) -> str:
    """Return the DNS name of the leading master."""
    return f"{name(tier, 'master')}.{tier.remote_namespace}.svc"


def master_address(tier: Tier) -> str:
    """Return the master's address in Mooncake's form."""
    external = tier.settings.external
    if external is not None:
        return external.master_address
    return f"{master_host(tier)}:{tier.settings.ports.rpc}"


def waits(tier: Tier, seconds: int) -> tuple[Json, ...]:
    """Return what waits for the master, and then for a store, of those that the tier runs.

    The Service of stores has no virtual address: its name resolves from the first ready store on.
    """
    service = f"{name(tier, 'store')}.{tier.remote_namespace}.svc"
    own = {
        AWAIT_MASTER: None if tier.settings.external is not None else master_address(tier),
        AWAIT: None if tier.settings.store is None else service,
    }
    return tuple(
        {"name": name_, "addresses": [address], "seconds": seconds}
        for name_, address in own.items()
        if address
    )


def admin_address(tier: Tier) -> str | None:
    """Return HOST:PORT of the leading master's admin server, None if unknown."""
    external = tier.settings.external
    if external is not None:
        return external.admin_address
    return f"{master_host(tier)}:{tier.settings.ports.admin}"


def metadata_server(tier: Tier) -> str:
    """Return the metadata server in Mooncake's form."""
    settings = tier.settings
    if settings.external is not None:
        return settings.external.metadata_server or P2P
    if settings.metadata == "http":
        return f"http://{master_host(tier)}:{settings.ports.metadata}/metadata"
    if settings.metadata == "etcd":
        return "etcd://" + etcd_endpoints(tier)
    return P2P


def etcd_endpoints(tier: Tier) -> str:
    """Return HOST:PORT of every member of the tier's etcd, separated by `;`."""
    etcd = present(tier.settings.etcd)
    if etcd.external is not None:
        return ";".join(f"{e.host}:{e.port}" for e in etcd.external.endpoints)
    service = name(tier, "etcd")
    return ";".join(
        f"{service}-{i}.{service}.{tier.remote_namespace}.svc:{ETCD_CLIENT}"
        for i in range(etcd.managed_or_default.replicas)
    )


def cluster_id(tier: Tier) -> str | None:
    """Return the id of the leader election: one etcd may serve several tiers."""
    settings = tier.settings
    if settings.external is not None:
        return settings.external.cluster_id
    return tier.remote_name if settings.ha else None


def by_node_name(tier: Tier) -> bool:
    """Return whether stores and clients use node names, to keep blocks on the node."""
    return tier.settings.allocation_strategy == "local_first"


def startup_seconds(tier: Tier) -> int:
    """Return the longest start of a store: two minutes and a second per GiB."""
    store = tier.settings.store
    return max(int(tier.spec.startup_timeout_seconds), 120 + (store.size_gib if store else 0))


def drains(tier: Tier) -> bool:
    """Return whether stores move their blocks away before they stop."""
    store = tier.settings.store
    return store is not None and store.drain.max_seconds > 0 and admin_address(tier) is not None


def tenant(tier: Tier, namespace: str) -> str:
    """Return the tenant of consumers in `namespace`, "" for Mooncake's default tenant."""
    tenants = tier.settings.tenants
    named = [] if tenants is None else [quota.namespace for quota in tenants.quotas]
    return namespace if namespace in named else ""
