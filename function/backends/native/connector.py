"""What an engine pod gets: vLLM's own connector, its memory in /dev/shm, the volumes below it.

Only keys that every version has which has the connector, or the version's own by the gate. On
shared levels the identity is a directory: vLLM's digest holds the model string, and neither
revision, quantisation nor attention backend.
"""

from typing import Any

from function.api.base import present
from function.api.native import NativeBucket, NativeLevel
from function.backends.native import conflicts, facts
from function.backends.native.facts import Tier
from function.contract.engine import Engine
from function.contract.injection import Injection, Json, SharedMemory
from function.contract.recorded import Allowance

HASH_SEED = "0"
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

ALLOWS = Allowance(
    connectors=frozenset({facts.CONNECTOR}),
    env=frozenset({"PYTHONHASHSEED"}),
    secrets=frozenset(_KEYS),
    mounts=(facts.MOUNTS,),
    volumes=frozenset({"persistentVolumeClaim"}),
)


def inject(tier: Tier, engine: Engine) -> Injection:
    """The wiring of one engine pod. Raises Refused."""
    conflicts.check(tier, engine)
    levels = tier.settings.secondary
    env = [variable for level in levels if level.bucket for variable in _credentials(level.bucket)]
    seed: tuple[Json, ...] = ({"name": "PYTHONHASHSEED", "value": HASH_SEED},) if levels else ()
    files = [level for level, _ in facts.file_systems(tier)]
    return Injection(
        backend="Native",
        connector={
            "kv_connector": facts.CONNECTOR,
            "kv_role": "kv_both",
            "kv_connector_extra_config": _extra(tier, engine),
        },
        connector_options={"kv_load_failure_policy": "recompute"},
        env=tuple(env),
        env_if_absent=seed,
        ray_env=tuple(variable["name"] for variable in (*env, *seed)),
        volumes=tuple(_volume(tier, level) for level in files),
        mounts=tuple({"name": _name(level), "mountPath": facts.mount(level)} for level in files),
        labels=tier.wired_labels,
        shm=SharedMemory(bytes=facts.pod_bytes(tier, engine)),
    )


def _extra(tier: Tier, engine: Engine) -> Json:
    spec = tier.settings
    extra: Json = {"cpu_bytes_to_use": facts.cpu_bytes(tier, engine)}
    if spec.eviction_policy != "LRU":
        extra["eviction_policy"] = spec.eviction_policy.lower()
    if spec.blocks_per_chunk is not None:
        extra["blocks_per_chunk"] = spec.blocks_per_chunk
    if tier.spec.events is not None and "self_describing_kv_events" in engine.features:
        # A router can do nothing with events that name no tokens.
        extra["self_describing_kv_events"] = True
    if spec.secondary:
        extra["spec_name"] = facts.TIERING
        extra["secondary_tiers"] = [_level(tier, level, engine) for level in spec.secondary]
    return extra


def _level(tier: Tier, level: NativeLevel, engine: Engine) -> Json:
    if level.file_system is not None:
        return {"type": "fs", "root_dir": f"{facts.directory(tier, level)}/{engine.identity}"}
    bucket = present(level.bucket)
    store: dict[str, Any] = {
        "bucket": bucket.bucket,
        "endpoint_override": bucket.endpoint,
        "region": bucket.region,
        "scheme": bucket.endpoint.partition(":")[0],
    }
    prefix = f"{tier.remote_name}/{engine.identity}"
    return {"type": "obj", "store_config": store, "prefix": prefix}


def _credentials(bucket: NativeBucket) -> list[Json]:
    """By environment, where the AWS chain looks: in the connector they would stand in argv."""
    secret = bucket.credentials_secret
    if secret is None:
        return []
    keys = (secret.access_key_id_key, secret.secret_access_key_key)
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": key}}}
        for name, key in zip(_KEYS, keys, strict=True)
    ]


def _name(level: NativeLevel) -> str:
    return f"kv-offload-level-{level.name}"


def _volume(tier: Tier, level: NativeLevel) -> Json:
    claim = {"claimName": facts.claim(tier, level)}
    return {"name": _name(level), "persistentVolumeClaim": claim}
