"""From one release line to another: never under engines that use the tier, unless on purpose.

Processes of two lines shake hands, and then every write fails: while the stores are replaced one by
one the pool falls apart, and afterwards every engine of the old line is without a cache, with no
error but a growing count of failed calls.
"""

from collections.abc import Mapping

from function.backends.mooncake import facts
from function.backends.mooncake.facts import Tier
from function.contract.backend import Pinned
from function.contract.image import parse_version
from function.problems import Problem

_NOBODY = "-"  # no namespace, as the status may hold it


def pinned(tier: Tier) -> tuple[Pinned, ...]:
    """How engines reach the pool, and what Kubernetes cannot change in a StatefulSet."""
    spec = tier.settings
    started = "engines that run were started for it"
    lost = "every store would be replaced at once, and what they hold is lost"
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
    # Without tenants a master takes whatever tenant a client names: there is nothing to hold then.
    named = ""
    if spec.tenants is not None:
        named = " ".join(sorted(quota.namespace for quota in spec.tenants.quotas)) or _NOBODY
    writes = (
        "the master refuses every write of theirs, and an SGLang engine that restarts there stops "
        "for good. Lower its sizeGiB instead"
    )
    path = "spec.mooncake.tenants.quotas"
    rows.append(Pinned(path, named, writes, unset=_NOBODY, namespaces=True))
    if etcd is not None:
        members = "a member that is added or removed by an edit takes the quorum with it"
        size = _claim(etcd.storage_class_name, etcd.storage_gib)
        rows += [
            Pinned("spec.mooncake.etcd.managed.replicas", str(etcd.replicas), members, True),
            Pinned("spec.mooncake.etcd.managed.storage", size, template, always=True),
        ]
    return tuple(rows)


def _claim(storage_class: str | None, size_gib: int) -> str:
    return f"{size_gib}Gi of {storage_class or 'the default class'}"


def problem(tier: Tier, running: Mapping[str, str]) -> Problem | None:
    """Why the tier cannot change in place. `running`: part -> version of Mooncake it runs now."""
    version = facts.image(tier).version
    if version is None or tier.spec.upgrade_policy.type == "Recreate":
        return None
    for part, text in sorted(running.items()):
        now = parse_version(text)
        if now is not None and facts.line(now) != facts.line(version):
            return Problem(
                "spec.image",
                f"would replace Mooncake {now} ({part}) by {version} under the tier's consumers, "
                "and the two lines do not interoperate. Make a second tier and move the consumers "
                "to it, or set spec.upgradePolicy.type to Recreate, which loses what is cached "
                "and leaves engines of the old line without a cache until they are replaced",
            )
    return None
