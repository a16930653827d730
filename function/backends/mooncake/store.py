"""The stores: `mooncake.mooncake_store_service` with a segment of memory.

`mooncake_client`, which some manifests run, ignores SIGTERM as process 1 and cannot be stopped
without losing its blocks. A store waits for its master in an init container, so that nothing
restarts while the master starts, and drains before it stops.
"""

import programs
from function.api.base import present
from function.api.mooncake_store import MooncakeStore
from function.backends import agents
from function.backends.mooncake import facts, pods, rdma
from function.backends.mooncake.facts import Tier
from function.backends.rdma import Device
from function.contract.backend import AGENTS, Manifest, Part
from function.kube import manifests as k

COMPONENT = "store"
DISK = "/var/lib/kv-offload/disk"
_GIB = 2**30
_STARTUP_PERIOD = 5
_PAGES = {"2Mi": "2MB", "1Gi": "1GB"}
# Mooncake stages what goes to disk in 1.25 GiB of memory, of hugepages where it uses them.
_STAGING_GIB = 2


def parts(tier: Tier) -> list[Part]:
    """Return the stores, their RDMA claims, disruption budget, and the name of the ready ones."""
    store = tier.settings.store
    if store is None:
        return []
    device = rdma.device(tier)
    labels = pods.labels(tier, COMPONENT)
    ports = {"health": tier.settings.ports.health}
    service = k.service(pods.meta(tier, COMPONENT), labels, ports, headless=True)
    parts_ = [*device.parts, Part("service-store", service)]
    meta, pod = pods.meta(tier, COMPONENT, versioned=True), _pod(tier, store, device)
    annotations = tier.spec.rdma.pod_annotations
    if store.form == "DaemonSet":
        stores = agents.daemonset(tier, "daemonset-store", meta, labels, pod, annotations)
        return [*parts_, stores]
    budget = k.disruption_budget(pods.meta(tier, COMPONENT), labels, maxUnavailable=1)
    manifest = k.workload(
        "StatefulSet", meta, labels, pod, annotations, **_statefulset(tier, store)
    )
    on_delete = tier.spec.upgrade_policy.type == "OnDelete"
    ready = k.STATEFULSET_READY_ON_DELETE if on_delete else k.STATEFULSET_READY
    return [
        *parts_,
        Part("statefulset-store", manifest, AGENTS, ready, watch=True),
        Part("poddisruptionbudget-store", budget),
    ]


def env(tier: Tier, store: MooncakeStore) -> list[Manifest]:
    """Return a store's environment: every setting in bytes, also Mooncake's defaults."""
    spec = tier.settings
    ports = spec.ports
    values = {
        "MOONCAKE_MASTER": facts.master_address(tier),
        "MOONCAKE_TE_META_DATA_SERVER": facts.metadata_server(tier),
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": str(store.size_gib * _GIB),
        "MOONCAKE_LOCAL_BUFFER_SIZE": "0",
        "MOONCAKE_PROTOCOL": spec.protocol,
        "MOONCAKE_DEVICE": rdma.device_names(tier),
        "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER": "true",
        "MOONCAKE_CLIENT_HTTP_PORT": str(ports.health),
        "MC_MIN_RPC_PORT": str(ports.transfer_first),
        "MC_MAX_RPC_PORT": str(ports.transfer_last),
        "MC_STORE_CLIENT_MIN_PORT": str(ports.segment_first),
        "MC_STORE_CLIENT_MAX_PORT": str(ports.segment_last),
        "MC_TCP_ENABLE_CONNECTION_POOL": "1",
        "HOME": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    cluster = facts.cluster_id(tier)
    if cluster is not None:
        values["MC_STORE_CLUSTER_ID"] = cluster
    if store.hugepages is not None:
        # Any value enables them, also 0.
        values |= {"MC_STORE_USE_HUGEPAGE": "1", "MC_STORE_HUGEPAGE_SIZE": _PAGES[store.hugepages]}
    if store.offload is not None:
        values |= {
            "MOONCAKE_OFFLOAD_ENABLED": "true",
            "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": DISK,
            "MOONCAKE_OFFLOAD_BUCKET_MAX_PHYSICAL_BYTES": str(store.offload.size_gib * _GIB),
            "MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY": "lru",
        }
    host = "spec.nodeName" if facts.by_node_name(tier) else "status.podIP"
    address = [] if spec.metadata == "p2p" else [k.env_field("MC_TCP_BIND_ADDRESS", "status.podIP")]
    # Without a reachable name, segments are registered as localhost, and writes of other pods fail.
    return [k.env_field("MOONCAKE_LOCAL_HOSTNAME", host), *address, *k.env(values | rdma.env(tier))]


def _pod(tier: Tier, store: MooncakeStore, device: Device) -> Manifest:
    volumes: list[Manifest] = [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}]
    volumes += _disk(tier, store)
    pod: Manifest = {
        **pods.base(tier, rdma.uid(tier), colocated_with_engines=store.form == "DaemonSet"),
        "terminationGracePeriodSeconds": _grace(tier, store),
        "initContainers": [_wait(tier), *_chown_directory(tier, store)],
        "containers": [_container(tier, store, device)],
        "volumes": volumes,
    }
    if store.form == "StatefulSet":
        pod["affinity"] = pods.spread(pods.labels(tier, COMPONENT))
    if device.pod_claims:
        pod["resourceClaims"] = [dict(claim) for claim in device.pod_claims]
    return pod


def _grace(tier: Tier, store: MooncakeStore) -> int:
    """Return the drain's limit plus the time to unmount (18 s without a master)."""
    return 30 + (store.drain.max_seconds if facts.drains(tier) else 0)


def _wait(tier: Tier) -> Manifest:
    addresses = facts.master_address(tier).removeprefix("etcd://").split(";")
    return pods.container(
        tier,
        "await-master",
        command=["python3", "-c", k.literal(programs.text("mooncake/wait.py"))],
        args=addresses,
        resources=pods.HELPER_RESOURCES,
    )


def _chown_directory(tier: Tier, store: MooncakeStore) -> list[Manifest]:
    """Return a container that gives root's new directory to the store's user."""
    if store.offload is None or store.offload.host_path is None:
        return []
    security = k.container_security()
    security["capabilities"]["add"] = ["CHOWN"]
    return [
        pods.container(
            tier,
            "give-directory",
            command=["chown", "--no-dereference", f"{facts.UID}:{facts.UID}", DISK],
            resources=pods.HELPER_RESOURCES,
            volumeMounts=[{"name": "disk", "mountPath": DISK}],
        )
        | {"securityContext": {**security, "runAsUser": 0, "runAsNonRoot": False}}
    ] * (rdma.uid(tier) != 0)


def _container(tier: Tier, store: MooncakeStore, device: Device) -> Manifest:
    ports = tier.settings.ports
    security = k.container_security()
    if device.capabilities:
        security["capabilities"]["add"] = list(device.capabilities)
    budget = facts.startup_seconds(tier)
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]
    if store.offload is not None:
        mounts.append({"name": "disk", "mountPath": DISK})
    container = pods.container(
        tier,
        COMPONENT,
        command=["python3", "-m", "mooncake.mooncake_store_service"],
        args=[
            *("--port", str(facts.REST_PORT)),
            # Its default is a minute: the start-up probe alone decides.
            *("--max-wait-time", str(budget)),
        ],
        env=env(tier, store),
        ports=agents.ports(health=ports.health),
        resources=_resources(store, device),
        securityContext=security,
        # Not /health: without a master it answers 503, and a restart would empty the store.
        startupProbe=k.tcp_probe(
            "health", period=_STARTUP_PERIOD, failures=-(-budget // _STARTUP_PERIOD)
        ),
        readinessProbe=k.http_probe("/health", "health", period=5, failures=2),
        livenessProbe=k.tcp_probe("health", period=30, failures=10),
        volumeMounts=mounts,
    )
    hook = pre_stop(tier, store)
    return container | ({"lifecycle": {"preStop": {"exec": {"command": hook}}}} if hook else {})


def pre_stop(tier: Tier, store: MooncakeStore) -> list[str]:
    """Return the command that drains a store, empty without a drain."""
    admin = facts.admin_address(tier)
    if not facts.drains(tier):
        return []
    words = [
        *("python3", "-c", programs.text("mooncake/drain.py")),
        *(f"http://{admin}", str(store.drain.max_seconds), str(store.drain.max_concurrency)),
    ]
    return [*words, *([f"http://127.0.0.1:{facts.REST_PORT}"] if store.offload else [])]


def _resources(store: MooncakeStore, device: Device) -> Manifest:
    resources = pods.resources(store.cpu_cores, store.pod_memory_gib)
    further = {name: str(count) for name, count in device.extended.items()}
    if store.hugepages is not None:
        size = store.size_gib + (_STAGING_GIB if store.offload else 0)
        further[f"hugepages-{store.hugepages}"] = f"{size}Gi"
    resources["requests"] |= further
    resources["limits"] |= further
    if device.container_claims:
        resources["claims"] = [dict(claim) for claim in device.container_claims]
    return resources


def _disk(tier: Tier, store: MooncakeStore) -> list[Manifest]:
    """Return the volume of blocks on disk; a StatefulSet has a claim template instead."""
    offload = store.offload
    if offload is None or (offload.claim is not None and store.form == "StatefulSet"):
        return []
    if offload.host_path is not None:
        # The tier's own directory below the given one: two tiers may share a disk.
        path = f"{offload.host_path.path.rstrip('/')}/{tier.remote_name}"
        source = {"path": path, "type": "DirectoryOrCreate"}
        return [{"name": "disk", "hostPath": source}]
    template = {
        "metadata": {"labels": tier.labels},
        "spec": k.claim(present(offload.claim).storage_class_name, offload.size_gib),
    }
    return [{"name": "disk", "ephemeral": {"volumeClaimTemplate": template}}]


def _statefulset(tier: Tier, store: MooncakeStore) -> Manifest:
    """Return the fields of a StatefulSet of stores beside its pods."""
    on_delete = tier.spec.upgrade_policy.type == "OnDelete"
    spec: Manifest = {
        "replicas": store.replicas,
        "serviceName": facts.name(tier, COMPONENT),
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete" if on_delete else "RollingUpdate"},
    }
    if store.offload is not None and store.offload.claim is not None:
        claim = k.claim(store.offload.claim.storage_class_name, store.offload.size_gib)
        spec |= k.claims_per_pod("disk", tier.labels, claim, when_scaled="Delete")
    return spec
