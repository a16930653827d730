"""Checks of a Mooncake tier beyond its schema: problems and warnings.

Each check is one function; all of them run, so that a user sees every problem.
"""

from collections.abc import Iterator

from function.backends import agents, host_paths
from function.backends.mooncake import facts
from function.backends.mooncake.facts import Tier
from function.backends.mooncake.flags import find_problem
from function.contract.backend import Pinned
from function.problems import Problem

_SPEC = "spec.mooncake"


def problems(tier: Tier) -> list[Problem]:
    """Return all problems of the tier, sorted by path."""
    return sorted({problem for check in _CHECKS for problem in check(tier)})


def _image(tier: Tier) -> Iterator[Problem]:
    """Yield a problem if the version behind flags and pairings is unknown or too old."""
    why = f"no engine of another line can use the tier (e.g. {facts.STOCK_TAG})"
    yield from agents.image_problems(facts.image(tier), "Mooncake", facts.OLDEST, why)


def _rdma(tier: Tier) -> Iterator[Problem]:
    if tier.settings.protocol == "rdma" and tier.spec.rdma.source == "None":
        yield Problem(
            f"{_SPEC}.protocol",
            "is rdma, but spec.rdma.source is None: set it to DevicePlugin or DRA, or use tcp",
        )
    plugin = tier.spec.rdma.device_plugin
    if plugin is not None and plugin.resource_name.endswith("/efa"):
        yield Problem(
            "spec.rdma.devicePlugin.resourceName",
            "is an EFA, which refuses the queue pairs of protocol rdma (Mooncake 2070). No release "
            "image has Mooncake's EFA transport: use protocol tcp",
        )
    template = tier.settings.engine.rdma_claim_template_name
    if template is not None and (
        tier.settings.protocol != "rdma" or tier.spec.rdma.source != "DRA"
    ):
        yield Problem(
            f"{_SPEC}.engine.rdmaClaimTemplateName",
            "may only be set with protocol rdma and spec.rdma.source DRA",
        )
    if tier.settings.rdma_gid_index is not None and tier.settings.protocol != "rdma":
        yield Problem(f"{_SPEC}.rdmaGidIndex", "may only be set with protocol rdma")


def _drain(tier: Tier) -> Iterator[Problem]:
    spec = tier.settings
    if spec.store is None or spec.external is not None:
        return
    seconds, lease = spec.store.drain.max_seconds, spec.master_or_default.eviction.lease_seconds
    if 0 < seconds <= lease:
        yield Problem(
            f"{_SPEC}.store.drain.maxSeconds",
            f"must be more than master.eviction.leaseSeconds ({lease}), or 0: blocks cannot move "
            "before their lease ends",
        )


def _directory(tier: Tier) -> Iterator[Problem]:
    store = tier.settings.store
    if store is None or store.offload is None or store.offload.host_path is None:
        return
    where = f"{_SPEC}.store.offload.hostPath.path"
    if problem := host_paths.find_problem(store.offload.host_path.path, where):
        yield problem
    if store.form == "StatefulSet":
        yield Problem(
            where,
            "must not be set with form StatefulSet: two stores on one node would share it. Use "
            "offload.claim",
        )


def _flags(tier: Tier) -> Iterator[Problem]:
    spec = tier.settings
    if spec.master is None:
        return
    offload = spec.store is not None and spec.store.offload is not None
    for name, value in sorted(spec.master.flags.items()):
        where = f"{_SPEC}.master.flags[{name}]"
        if name == "root_fs_dir" and offload:
            yield Problem(where, "is the older disk backend and must not be set with store.offload")
        elif problem := find_problem(name, value):
            yield Problem(where, problem)


def _tenants(tier: Tier) -> Iterator[Problem]:
    spec = tier.settings
    if spec.tenants is None:
        return
    where = f"{_SPEC}.tenants.quotas"
    if len(" ".join(quota.namespace for quota in spec.tenants.quotas)) > Pinned.LONGEST:
        yield Problem(where, f"must have names of at most {Pinned.LONGEST} characters in total")
    pool, promised = _pool_gib(tier), _promised_gib(tier)
    if pool and promised > pool:
        yield Problem(
            f"{_SPEC}.tenants",
            f"promises {promised} GiB (quotas and othersSizeGiB) of a pool of {pool}: the master "
            "would reduce every share in proportion. Lower the shares, or add stores",
        )


def _pool_gib(tier: Tier) -> int:
    """Return the memory of all stores, 0 if it depends on the number of nodes."""
    store = tier.settings.store
    return (store.replicas or 0) * store.size_gib if store is not None else 0


def _not_admitted(tier: Tier) -> str:
    """Return the namespaces with a share that may not name the tier."""
    tenants, allowed = tier.settings.tenants, tier.spec.allowed_namespaces
    if tenants is None or allowed.from_ == "All":
        return ""
    admitted = set(allowed.names) | ({tier.namespace} if allowed.from_ == "Same" else set())
    return ", ".join(q.namespace for q in tenants.quotas if q.namespace not in admitted)


def _promised_gib(tier: Tier) -> int:
    tenants = tier.settings.tenants
    if tenants is None:
        return 0
    return tenants.others_size_gib + sum(quota.size_gib for quota in tenants.quotas)


_CHECKS = (_image, _rdma, _drain, _directory, _flags, _tenants)


def warnings(tier: Tier) -> Iterator[str]:
    """Yield the warnings about a valid tier, for its Accepted condition."""
    spec = tier.settings
    store, image = spec.store, facts.image(tier)
    master = spec.master_or_default
    promised, pool = _promised_gib(tier), _pool_gib(tier)
    full = pool * master.eviction.high_watermark_percent // 100
    if 0 < full < promised:
        yield (
            f"The shares of {promised} GiB in total exceed the {full} GiB at which the whole pool "
            "evicts: full shares then evict blocks of other namespaces."
        )
    if bool(_not_admitted(tier)):
        yield (
            f"spec.allowedNamespaces does not admit {_not_admitted(tier)}: their quotas apply only "
            "to HiCache tiers over this pool."
        )
    if spec.external is None and master.replicas > 1 and not master.oplog:
        yield "Without master.oplog all blocks are lost when the leading master changes."
    if master.oplog:
        yield "master.oplog is never trimmed: when etcd's quota is full, no block can be written."
    if (
        spec.protocol == "rdma"
        and tier.spec.rdma.source == "DRA"
        and spec.engine.rdma_claim_template_name is None
    ):
        yield "Engines do not start without an RDMA device in a claim of their own."
    if spec.protocol == "rdma":
        yield "RDMA is not yet tested on a device."
    if store is not None and store.form == "DaemonSet" and not tier.spec.nodes.selector:
        yield "spec.nodes.selector is empty: a store runs on every node."
    if store is not None and store.drain.max_seconds > 0 and not facts.drains(tier):
        yield "external.adminAddress is not set: stores do not drain before they stop."
    if store is not None and tier.spec.upgrade_policy.type == "Recreate":
        yield "upgradePolicy Recreate replaces all stores at once: their blocks are lost."
    if image.version is not None and image.version > facts.NEWEST:
        yield f"Mooncake {image.version} is newer than {facts.NEWEST}, the newest tested version."


def pod_security(tier: Tier) -> str:
    """Return the strictest Pod Security level that admits the tier's own pods."""
    spec = tier.settings
    store = spec.store
    if store is None:
        return "restricted"
    # Host directories, and the capability to lock memory, are for privileged namespaces only.
    on_host = store.offload is not None and store.offload.host_path is not None
    return "privileged" if on_host or spec.protocol == "rdma" else "restricted"
