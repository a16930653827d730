"""A Redis that the tier runs: one pod, bounded by maxmemory, for the agents only.

One pod, because LMCache's client supports neither clusters nor sentinels. Its password, if the tier
sets one, goes from the environment into a configuration file in memory: an argument would show it
to everyone who may list processes or pods.
"""

from function.api.base import present
from function.api.lmcache_l2 import L2Level, ManagedRedis, Redis
from function.backends import agents
from function.backends.lmcache import network
from function.backends.lmcache.facts import Tier
from function.contract.backend import CONTROL_PLANE, Manifest, Part
from function.kube import manifests as k
from function.kube import naming

_UID = 999  # redis, in the official images
_CONTAINER = "redis"
_CONFIG = "/run/redis/redis.conf"
_START = (
    "umask 077\n"
    """printf 'requirepass "%s"\\n' """
    """"$(printf %s "$REDISCLI_AUTH" | sed 's/[\\\\"]/\\\\&/g')" > {config}\n"""
    'exec redis-server {config} "$@"\n'
)
# Without jq or grep: redis-cli exits 0 for errors too, so the reply is compared.
_PING = ["sh", "-c", 'test "$(redis-cli -h 127.0.0.1 -p "$0" ping)" = PONG']


def host(tier: Tier, level: L2Level) -> str:
    """Return the DNS name of a level's Redis."""
    return f"{name(tier, level)}.{tier.remote_namespace}.svc"


def name(tier: Tier, level: L2Level) -> str:
    """Return the name of a level's Redis.

    A StatefulSet's pods carry it and a hash in a label: at most 52 characters.
    """
    return naming.label(tier.remote_name, level.name, limit=50)


def parts(tier: Tier, level: L2Level) -> list[Part]:
    """Return the parts of a managed Redis, none for an existing one."""
    redis = present(level.redis)
    managed = redis.managed
    if managed is None:
        return []
    labels = k.component(tier.labels, f"redis-{level.name}")
    meta = k.metadata(name(tier, level), tier.remote_namespace, labels)
    out = [
        Part(
            f"statefulset-redis-{level.name}",
            k.workload(
                "StatefulSet",
                meta,
                labels,
                _pod(redis, managed, meta["name"]),
                replicas=1,
                serviceName=meta["name"],
            ),
            role=CONTROL_PLANE,
            ready=k.STATEFULSET_READY,
            watch=True,
        ),
        Part(f"service-redis-{level.name}", k.service(dict(meta), labels, {"redis": redis.port})),
        Part(
            f"networkpolicy-redis-{level.name}",
            k.network_policy(dict(meta), labels, [_agents_only(tier, redis)]),
        ),
    ]
    if managed.persistence is not None:
        # Twice the memory: a snapshot is written beside the one before it.
        spec = k.claim(managed.persistence.storage_class_name, 2 * managed.size_gib)
        claim = k.persistent_volume_claim(dict(meta), spec)
        out.insert(0, Part(f"persistentvolumeclaim-redis-{level.name}", claim, keep=True))
    return out


def _agents_only(tier: Tier, redis: Redis) -> Manifest:
    rule = k.ingress([redis.port])
    rule["from"] = [{"podSelector": {"matchLabels": network.agent_labels(tier)}}]
    return rule


def _pod(redis: Redis, managed: ManagedRedis, claim: str) -> Manifest:
    data: Manifest = {"name": "data", "emptyDir": {}}
    if managed.persistence is not None:
        data = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return {
        **k.pod_defaults(_UID),
        "terminationGracePeriodSeconds": _grace(managed),
        "containers": [_container(redis, managed)],
        "volumes": [data, {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
    }


def _grace(managed: ManagedRedis) -> int:
    """Return the seconds to write a last snapshot (half a GiB per second), or to stop."""
    return 30 + 2 * managed.size_gib if managed.persistence else 30


def _container(redis: Redis, managed: ManagedRedis) -> Manifest:
    container: Manifest = {
        "name": _CONTAINER,
        "image": f"{managed.image.repository}:{managed.image.tag}",
        "imagePullPolicy": managed.image.pull_policy,
        "command": ["redis-server"],
        "args": _settings(redis.port, managed),
        "ports": agents.ports(redis=redis.port),
        "resources": agents.resources(1, {"memory": f"{memory_gib(managed)}Gi"}),
        "securityContext": k.container_security(),
        "startupProbe": _probe(redis.port, period=5, failures=60 + 2 * managed.size_gib),
        "readinessProbe": _probe(redis.port, period=10, failures=3),
        "livenessProbe": _probe(redis.port, period=30, failures=10),
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "run", "mountPath": "/run/redis"},
        ],
    }
    if redis.auth_secret is not None:
        container["command"] = ["sh", "-ec", _START.format(config=_CONFIG), "redis-server"]
        container["env"] = [
            k.env_secret("REDISCLI_AUTH", redis.auth_secret.name, redis.auth_secret.key)
        ]
    return container


def memory_gib(managed: ManagedRedis) -> int:
    """Return the pod's memory: blocks and a quarter, a half more with snapshots."""
    share = 2 if managed.persistence else 4
    return managed.size_gib + -(-managed.size_gib // share) + 1


def _settings(port: int, managed: ManagedRedis) -> list[str]:
    return [
        *("--port", str(port)),
        *("--protected-mode", "no"),
        *("--dir", "/data"),
        *("--maxmemory", f"{managed.size_gib}gb"),
        *("--maxmemory-policy", "allkeys-lru"),
        *("--lazyfree-lazy-eviction", "yes"),
        *("--appendonly", "no"),
        *("--save", "3600 1" if managed.persistence else ""),
    ]


def _probe(port: int, *, period: int, failures: int) -> Manifest:
    command = [*_PING, str(port)]
    return k.exec_probe(command, period=period, failures=failures)
