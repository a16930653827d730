"""The master: a single one that restarts, or several that elect a leader in etcd.

With several, only the leader listens on the RPC port. So readiness is that port, and the Service
has only the leader behind it. "3 desired, 1 ready" is the healthy state: the Object is ready with
one, and the disruption budget guards that one.

Both forms are replaced all at once (Recreate): two single masters in parallel would each know half
of the pool, and a rolling update of several would wait for standbys to become ready, which they
never do.
"""

from function.api.mooncake import MooncakeSpec
from function.backends import agents
from function.backends.mooncake import facts, pods, tenants
from function.backends.mooncake.facts import Tier
from function.contract.backend import CONTROL_PLANE, Manifest, Part
from function.kube import manifests as k

COMPONENT = "master"
_NO_DEADLINE = 2147483647  # of rollouts: standbys never become available


def parts(tier: Tier) -> list[Part]:
    """Return the master, its Service and, with several, their disruption budget."""
    spec = tier.settings
    if spec.external is not None:
        return []
    labels = pods.labels(tier, COMPONENT)
    out = [
        *tenants.config_map(tier),
        _deployment(tier),
        Part("service-master", k.service(pods.meta(tier, COMPONENT), labels, _ports(spec))),
    ]
    if spec.master_or_default.replicas > 1:
        budget = k.disruption_budget(pods.meta(tier, COMPONENT), labels, minAvailable=1)
        out.append(Part("poddisruptionbudget-master", budget))
    return out


def arguments(tier: Tier) -> list[str]:
    """Return the arguments of `mooncake_master`: every setting, also its defaults."""
    spec = tier.settings
    master = spec.master_or_default
    eviction = master.eviction
    flags: dict[str, str] = {
        "rpc_port": str(spec.ports.rpc),
        "rpc_thread_num": str(master.rpc_threads),
        "metrics_port": str(spec.ports.admin),
        "client_ttl": str(master.client_ttl_seconds),
        "allocation_strategy": spec.allocation_strategy,
        "eviction_high_watermark_ratio": _share(eviction.high_watermark_percent),
        "eviction_ratio": _share(eviction.evict_percent),
        "default_kv_lease_ttl": str(eviction.lease_seconds * 1000),
        "default_kv_soft_pin_ttl": str(eviction.soft_pin_seconds * 1000),
        "allow_evict_soft_pinned_objects": _flag(eviction.evict_soft_pinned),
        "enable_http_metadata_server": _flag(spec.metadata == "http"),
        "logtostderr": "true",
    }
    if spec.metadata == "http":
        flags["http_metadata_server_port"] = str(spec.ports.metadata)
    if spec.store is not None and spec.store.offload is not None:
        flags["enable_offload"] = "true"
    if spec.ha:
        flags |= {
            "enable_ha": "true",
            "ha_backend_type": "etcd",
            "ha_backend_connstring": facts.etcd_endpoints(tier),
            "cluster_id": facts.cluster_id(tier) or facts.DEFAULT_CLUSTER_ID,
            # The leader writes it into etcd; the default is 0.0.0.0.
            "rpc_address": "$(POD_IP)",
            "enable_oplog": _flag(master.oplog),
        }
    replication = master.replication
    if replication is not None:
        flags |= {
            "dynamic_replication_mode": replication.mode,
            "dynamic_replication_max_memory_replicas": str(replication.max_replicas),
            "dynamic_replication_admission_qps_threshold": repr(replication.reads_per_minute / 60),
            "dynamic_replication_heat_window_seconds": str(replication.window_seconds),
        }
    flags |= tenants.flags(tier)
    words = (*flags.items(), *sorted(master.flags.items()))
    return [f"--{name}={value}" for name, value in words]


def _ports(spec: MooncakeSpec) -> dict[str, int]:
    ports = {"rpc": spec.ports.rpc, "admin": spec.ports.admin}
    return ports | ({"metadata": spec.ports.metadata} if spec.metadata == "http" else {})


def _deployment(tier: Tier) -> Part:
    spec = tier.settings
    labels = pods.labels(tier, COMPONENT)
    pod: Manifest = {
        **pods.control_plane(tier),
        "terminationGracePeriodSeconds": 30,
        "containers": [_container(tier)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
    }
    if spec.master_or_default.replicas > 1:
        pod["affinity"] = pods.spread(labels)
    manifest = k.workload(
        "Deployment",
        pods.meta(tier, COMPONENT, versioned=True),
        labels,
        tenants.with_quotas(tier, pod),
        replicas=spec.master_or_default.replicas,
        strategy={"type": "Recreate"},
        progressDeadlineSeconds=_NO_DEADLINE if spec.ha else 600,
    )
    return Part("deployment-master", manifest, CONTROL_PLANE, k.LEADER_READY, watch=True)


def _container(tier: Tier) -> Manifest:
    spec = tier.settings
    master = spec.master_or_default
    # As process 1 an HA master ignores SIGTERM: tini passes it on.
    init = ["tini", "--"] if spec.ha else []
    if spec.ha:
        readiness = k.tcp_probe("rpc", period=2, failures=2)
    else:
        readiness = k.http_probe("/health", "admin", period=5, failures=2)
    env = {"env": [k.env_field("POD_IP", "status.podIP")]} if spec.ha else {}
    return pods.container(
        tier,
        COMPONENT,
        command=[*init, "mooncake_master"],
        args=arguments(tier),
        **env,
        ports=agents.ports(**_ports(spec)),
        resources=pods.resources(master.cpu_cores, master.memory_gib),
        startupProbe=k.http_probe("/health", "admin", period=2, failures=60),
        readinessProbe=readiness,
        # A restart of a single master empties the pool, a pause of it loses nothing.
        livenessProbe=k.http_probe("/health", "admin", period=10, failures=6 if spec.ha else 18),
        volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}, *tenants.mounts(tier)],
    )


def _share(percent: int) -> str:
    return repr(percent / 100)


def _flag(value: bool) -> str:
    return "true" if value else "false"
