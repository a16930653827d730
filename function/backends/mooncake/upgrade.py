"""Upgrades between release lines: refused while engines use the tier.

Processes of two lines connect, then every write fails. While the stores are replaced one by one the
pool falls apart. Afterwards every engine of the old line has no cache; only a counter of failed
calls grows. upgradePolicy Recreate allows it on purpose.
"""

from collections.abc import Iterator, Mapping

from function.backends.mooncake import connector, facts
from function.backends.mooncake.facts import Tier
from function.contract.backend import Pinned
from function.contract.image import parse_version
from function.problems import Problem

_NO_NAMESPACE = "-"  # as the status may hold it
_NONE = "none"


def pinned(tier: Tier) -> tuple[Pinned, ...]:
    """Return how engines reach the pool, and what a StatefulSet cannot change."""
    spec = tier.settings
    started = "running engines were started for it"
    lost = "all stores would be replaced at once, and their blocks lost"
    template = "Kubernetes cannot change the claims of a StatefulSet"
    etcd = spec.etcd.managed_or_default if spec.etcd and spec.etcd.source == "Managed" else None
    offload = spec.store.offload if spec.store else None
    claim = offload.claim if offload else None
    rows = [
        Pinned("spec.mooncake.protocol", spec.protocol, started),
        Pinned("spec.mooncake.metadata", spec.metadata, started),
        Pinned("spec.mooncake.ports.rpc", str(spec.ports.rpc), started),
        Pinned("spec.mooncake.external", "set" if spec.external else "none", started),
        Pinned("spec.mooncake.master.replicas", "one" if not spec.ha else "several", started),
        Pinned("spec.mooncake.store.form", spec.store.form if spec.store else "none", lost),
        Pinned(
            "spec.mooncake.store.offload.claim",
            _claim(claim.storage_class_name, offload.size_gib) if offload and claim else "none",
            template,
            always=spec.store is not None and spec.store.form == "StatefulSet",
        ),
    ]
    # Without tenants a master accepts any tenant of a client: nothing is pinned then.
    named = ""
    if spec.tenants is not None:
        named = " ".join(sorted(quota.namespace for quota in spec.tenants.quotas)) or _NO_NAMESPACE
    writes = (
        "the master then refuses their writes, and an SGLang engine that restarts there stops for "
        "good. Lower its sizeGiB instead"
    )
    path = "spec.mooncake.tenants.quotas"
    rows.append(Pinned(path, named, writes, unset=_NO_NAMESPACE, namespaces=True))
    if etcd is not None:
        members = "adding or removing a member by an edit breaks the quorum"
        size = _claim(etcd.storage_class_name, etcd.storage_gib)
        rows += [
            Pinned("spec.mooncake.etcd.managed.replicas", str(etcd.replicas), members, True),
            Pinned("spec.mooncake.etcd.managed.storage", size, template, always=True),
        ]
    return (*rows, *_addresses(tier, started))


def _addresses(tier: Tier, why: str) -> Iterator[Pinned]:
    """Yield each address of the pool that engines hold, and the tier's own pods would leave."""
    spec, external = tier.settings, tier.settings.external
    asked = connector.asks_admin(tier)
    if external is not None:
        where = "spec.mooncake.external"
        yield Pinned(f"{where}.masterAddress", external.master_address, why)
        yield Pinned(f"{where}.metadataServer", facts.metadata_server(tier), why)
        yield Pinned(f"{where}.clusterId", external.cluster_id or _NONE, why)
        if asked:
            yield Pinned(f"{where}.adminAddress", external.admin_address or "", why)
        return
    if spec.metadata == "http":
        yield Pinned("spec.mooncake.ports.metadata", str(spec.ports.metadata), why)
    if asked:
        yield Pinned("spec.mooncake.ports.admin", str(spec.ports.admin), why)
    if spec.etcd is not None:
        leads = "masters and engines that run would be apart from new ones"
        yield Pinned("spec.mooncake.etcd.source", spec.etcd.source, leads)
        if spec.etcd.external is not None:
            endpoints = facts.etcd_endpoints(tier)
            yield Pinned("spec.mooncake.etcd.external.endpoints", endpoints, leads)


def _claim(storage_class: str | None, size_gib: int) -> str:
    return f"{size_gib}Gi of {storage_class or 'the default class'}"


def find_problem(tier: Tier, running: Mapping[str, str]) -> Problem | None:
    """Return why the tier cannot change in place, None if it can.

    `running`: part -> Mooncake version that it runs now.
    """
    version = facts.image(tier).version
    if version is None or tier.spec.upgrade_policy.type == "Recreate":
        return None
    for part, text in sorted(running.items()):
        now = parse_version(text)
        if now is not None and facts.line(now) != facts.line(version):
            return Problem(
                "spec.image",
                f"would replace Mooncake {now} ({part}) by {version} while consumers use it, but "
                "the two lines do not interoperate. Create a second tier and move the "
                "consumers. Or set spec.upgradePolicy.type to Recreate: all blocks are lost, "
                "and engines of the old line have no cache until they are replaced",
            )
    return None
