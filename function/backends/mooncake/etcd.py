"""A managed etcd: N members in one cluster from the start.

Each member's name and address follow from its StatefulSet's; every one starts with the same list of
all N. Names resolve before a member is ready, or no member would find the others. Volumes are
claims: a member that restarts without its data is another member, and the rest refuse it.
"""

from function.api.mooncake_master import MooncakeManagedEtcd
from function.backends import agents
from function.backends.mooncake import facts, pods
from function.backends.mooncake.facts import Tier
from function.contract.backend import CONTROL_PLANE, Manifest, Part
from function.kube import manifests as k

COMPONENT = "etcd"
_DATA = "/var/lib/etcd"
_GIB = 2**30


def parts(tier: Tier) -> list[Part]:
    """Return etcd, its Service and its disruption budget; none for an existing etcd."""
    etcd = tier.settings.etcd
    if etcd is None or etcd.source != "Managed":
        return []
    labels = pods.labels(tier, COMPONENT)
    meta = pods.meta(tier, COMPONENT)
    names = k.service(
        meta, labels, {"client": facts.ETCD_CLIENT, "peer": facts.ETCD_PEER}, headless=True
    )
    names["spec"]["publishNotReadyAddresses"] = True
    managed = etcd.managed_or_default
    out = [_statefulset(tier, managed), Part("service-etcd", names)]
    if managed.replicas > 1:
        budget = k.disruption_budget(pods.meta(tier, COMPONENT), labels, maxUnavailable=1)
        out.append(Part("poddisruptionbudget-etcd", budget))
    return out


def _statefulset(tier: Tier, managed: MooncakeManagedEtcd) -> Part:
    labels = pods.labels(tier, COMPONENT)
    meta = pods.meta(tier, COMPONENT)
    pod: Manifest = {
        **pods.control_plane(tier),
        "terminationGracePeriodSeconds": 30,
        "affinity": pods.spread(labels),
        "containers": [_container(tier, managed)],
    }
    claim = k.claim(managed.storage_class_name, managed.storage_gib)
    manifest = k.workload(
        "StatefulSet",
        meta,
        labels,
        pod,
        replicas=managed.replicas,
        serviceName=meta["name"],
        # In order, no member would become ready: a quorum needs the next one.
        podManagementPolicy="Parallel",
        **k.claims_per_pod("data", tier.labels, claim, when_scaled="Retain"),
    )
    return Part("statefulset-etcd", manifest, CONTROL_PLANE, k.STATEFULSET_READY, watch=True)


def _container(tier: Tier, managed: MooncakeManagedEtcd) -> Manifest:
    name = facts.name(tier, COMPONENT)
    domain = f"{name}.{tier.remote_namespace}.svc"
    members = ",".join(
        f"{name}-{i}=http://{name}-{i}.{domain}:{facts.ETCD_PEER}" for i in range(managed.replicas)
    )
    own = f"http://$(POD_NAME).{domain}"
    flags = {
        "name": "$(POD_NAME)",
        "data-dir": f"{_DATA}/data",
        "initial-cluster": members,
        "initial-cluster-state": "new",
        "initial-cluster-token": tier.remote_name,
        "initial-advertise-peer-urls": f"{own}:{facts.ETCD_PEER}",
        "advertise-client-urls": f"{own}:{facts.ETCD_CLIENT}",
        "listen-peer-urls": f"http://0.0.0.0:{facts.ETCD_PEER}",
        "listen-client-urls": f"http://0.0.0.0:{facts.ETCD_CLIENT}",
        "quota-backend-bytes": str(managed.quota_gib * _GIB),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
    }
    return {
        "name": COMPONENT,
        "image": f"{managed.image.repository}:{managed.image.tag}",
        "imagePullPolicy": managed.image.pull_policy,
        "command": ["etcd"],
        "args": [f"--{flag}={value}" for flag, value in flags.items()],
        "env": [k.env_field("POD_NAME", "metadata.name")],
        "ports": agents.ports(client=facts.ETCD_CLIENT, peer=facts.ETCD_PEER),
        "resources": pods.resources(1, max(2, managed.quota_gib)),
        "securityContext": k.container_security(),
        "startupProbe": k.http_probe("/livez", "client", period=5, failures=60),
        "readinessProbe": k.http_probe("/readyz", "client", period=5, failures=3),
        "livenessProbe": k.http_probe("/livez", "client", period=10, failures=6),
        "volumeMounts": [{"name": "data", "mountPath": _DATA}],
    }
