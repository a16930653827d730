"""Mode NodeServer on the cluster: a DaemonSet of `lmcache server` and its network.

The server is PID 1 of its container: the stock image has no entrypoint, signals must arrive, and
isolated IPC distinguishes server and engine by their process ids. Requests equal limits, because
pinned memory cannot be reclaimed. The agent sees GPUs without allocating them: they belong to the
engines.

Rejected: hostNetwork with status.hostIP (opens both unauthenticated ports on the node, and two
tiers on a node collide); upstream's operator (cluster-wide rights to Secrets, one L2, TCP probes).
"""

from collections.abc import Sequence

from function.backends import agents
from function.backends.lmcache import facts, files, gpu, l2, network, programs
from function.backends.lmcache.facts import HTTP_PORT, MQ_PORT, Tier
from function.backends.lmcache.level import Level
from function.contract.backend import Manifest, Part, Pinned
from function.kube import manifests as k

CONTAINER = "agent"
_COMMAND = ["/opt/venv/bin/lmcache", "server"]
_PROBE = "/healthcheck"
_STARTUP_PERIOD = 5


def parts(tier: Tier) -> list[Part]:
    """Return the parts of a NodeServer tier, in the order in which they are applied."""
    seen = gpu.visibility(tier, CONTAINER)
    levels = l2.levels(tier)
    measured = {"http": HTTP_PORT, **files.ports(levels)}
    return [
        Part("namespace", k.namespace(tier.remote_namespace, seen.namespace_labels), keep=True),
        *seen.parts,
        *(part for level in levels for part in level.parts),
        *files.program(tier, levels),
        _daemonset(tier, seen, levels),
        network.service(tier),
        network.policy(tier, measured),
        *network.monitoring(tier, measured),
    ]


def pinned(tier: Tier) -> tuple[Pinned, ...]:
    """Return the settings that engines and their node's agent must have in common."""
    spec = tier.settings
    why = "engines that run were started for it"
    written = "its blocks were written with it, and would be read as other ones"
    return (
        Pinned("spec.lmcache.mode", spec.mode, why),
        Pinned("spec.lmcache.ipc", spec.ipc, why),
        Pinned("spec.lmcache.chunkTokens", str(spec.chunk_tokens), why),
        Pinned("spec.lmcache.separateObjectGroups", str(spec.separate_object_groups).lower(), why),
        *(
            Pinned(f"spec.lmcache.l2[{level.name}].serde", l2.serde(level) or "none", written)
            for level in spec.l2
        ),
    )


def arguments(tier: Tier, levels: Sequence[Level]) -> list[str]:
    """Return the arguments of `lmcache server`; Kubernetes expands `$(NAME)`."""
    spec = tier.settings
    l1 = facts.first_level(tier)
    words = [
        *("--host", "0.0.0.0"),
        *("--port", str(MQ_PORT)),
        *("--http-host", "$(POD_IP)"),
        *("--http-port", str(HTTP_PORT)),
        *("--instance-id", "$(NODE_NAME)"),
        *("--chunk-size", str(spec.chunk_tokens)),
        *("--hash-algorithm", "blake3"),
        *("--max-gpu-workers", str(spec.gpu_workers)),
        *("--max-cpu-workers", str(spec.cpu_workers)),
        *("--worker-reap-timeout-seconds", str(spec.registration.reap_seconds)),
        *("--worker-registration-grace-seconds", str(spec.registration.grace_seconds)),
        *("--l1-size-gb", str(l1.size_gib)),
        *("--eviction-policy", l1.eviction_policy),
        *("--eviction-trigger-watermark", _share(l1.eviction_trigger_percent)),
        *("--eviction-ratio", _share(l1.eviction_percent)),
    ]
    if facts.image(tier).has("registration.sessionSeconds"):
        words += ["--session-ttl-seconds", str(spec.registration.session_seconds)]
    if l1.hugepages:
        words += ["--l1-use-hugepages", "--no-l1-use-lazy"]
    else:
        words += ["--l1-init-size-gb", str(facts.initial_size(tier))]
    if spec.ipc == facts.ISOLATED:
        words.append("--isolated-ipc")
    if spec.separate_object_groups:
        words.append("--separate-object-groups")
    if levels:
        words += ["--l2-prefetch-max-in-flight", str(spec.prefetch.max_in_flight)]
        words += ["--l2-prefetch-policy", "retain"] if spec.prefetch.retain else []
        words += ["--l2-store-policy", "skip_l1"] if l1.buffer_only else []
    for level in levels:
        words += ["--l2-adapter", level.adapter]
    return words


def _daemonset(tier: Tier, seen: gpu.Visibility, levels: Sequence[Level]) -> Part:
    labels = network.agent_labels(tier)
    meta = k.metadata(f"{tier.remote_name}-agent", tier.remote_namespace, labels)
    pod = _pod(tier, seen, levels)
    return agents.daemonset(tier, "daemonset-agent", meta, labels, pod, seen.annotations)


def _pod(tier: Tier, seen: gpu.Visibility, levels: Sequence[Level]) -> Manifest:
    spec = tier.settings
    pod: Manifest = {
        **agents.pod(tier, facts.image(tier), spec.run_as_user, colocated_with_engines=True),
        **seen.pod,
        "terminationGracePeriodSeconds": 30,
        "containers": [_container(tier, seen, levels), *files.containers(tier, levels)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            *_shared_memory(tier),
            *(volume for level in levels for volume in level.volumes),
            *files.volumes(tier, levels),
        ],
    }
    if waiters := programs.waiters(tier, levels):
        pod["initContainers"] = waiters
    if spec.service_account_name:
        pod["serviceAccountName"] = spec.service_account_name
    return pod


def _container(tier: Tier, seen: gpu.Visibility, levels: Sequence[Level]) -> Manifest:
    env = [
        k.env_field("POD_IP", "status.podIP"),
        k.env_field("NODE_NAME", "spec.nodeName"),
        # The root is read-only: caches of torch, numba and CuPy go to the scratch volume.
        *k.env({"HOME": "/tmp", "LMCACHE_TRACK_USAGE": "false", **seen.env}),
    ]
    # Levels of one type share their credentials (see `checks`): each variable is set once.
    for level in levels:
        env += [variable for variable in level.env if variable not in env]
    mounts = [
        {"name": "tmp", "mountPath": "/tmp"},
        *({"name": v["name"], "mountPath": "/dev/shm"} for v in _shared_memory(tier)),
        *(mount for level in levels for mount in level.all_mounts),
    ]
    return agents.container(
        facts.image(tier),
        CONTAINER,
        command=list(_COMMAND),
        args=arguments(tier, levels),
        env=env,
        ports=agents.ports(mq=MQ_PORT, http=HTTP_PORT),
        resources=_resources(tier, seen),
        **_probes(tier),
        volumeMounts=mounts,
    )


def _resources(tier: Tier, seen: gpu.Visibility) -> Manifest:
    """Return memory and hugepages, and a claim of GPUs in addition."""
    spec = tier.settings
    l1 = facts.first_level(tier)
    overhead = spec.resources.memory_overhead_gib
    if l1.hugepages:
        memory = {"memory": f"{overhead}Gi", "hugepages-2Mi": f"{l1.size_gib}Gi"}
    else:
        memory = {"memory": f"{l1.size_gib + overhead}Gi"}
    return {**agents.resources(spec.resources.cpu_cores, memory), **seen.resources}


def _probes(tier: Tier) -> Manifest:
    """Return the probes; the start-up probe needs a visible GPU.

    A server without a GPU looks healthy, but no engine can register with it. A restart loses the
    engines' registrations and every block in memory, so liveness waits five minutes. `/healthcheck`
    answers 503 until the server's cache engine exists, and does not check lower levels.
    """
    return {
        "startupProbe": k.exec_probe(
            programs.command("started.py", str(HTTP_PORT), _PROBE),
            period=_STARTUP_PERIOD,
            failures=-(-facts.startup_seconds(tier) // _STARTUP_PERIOD),
            timeout=10,
        ),
        "readinessProbe": k.http_probe(_PROBE, "http", period=10, failures=3),
        "livenessProbe": k.http_probe(_PROBE, "http", period=30, failures=10, timeout=10),
    }


def _shared_memory(tier: Tier) -> list[Manifest]:
    """Return the node's /dev/shm for ipc SharedMemory; an emptyDir is per pod."""
    if tier.settings.ipc == facts.ISOLATED:
        return []
    return [{"name": "host-shm", "hostPath": {"path": "/dev/shm", "type": "Directory"}}]


def _share(percent: int) -> str:
    """Return percent as the fraction that the server takes: 80 -> 0.8, 100 -> 1.0."""
    return repr(percent / 100)
