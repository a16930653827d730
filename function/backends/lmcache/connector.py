"""The wiring of engine pods by a NodeServer tier."""

import json
from collections.abc import Callable

import yaml

from function.api.engines import SGLANG, VLLM
from function.backends.lmcache import facts, modules
from function.backends.lmcache.facts import Tier
from function.backends.modules import mounted
from function.contract.engine import Engine
from function.contract.injection import Injection, Json, SharedMemory
from function.kube.naming import file_name


def inject(tier: Tier, engine: Engine) -> Injection:
    """Return the wiring of one engine pod. Raise Refused where it cannot work."""
    return _ENGINES[engine.name](tier, engine)


def _vllm(tier: Tier, engine: Engine) -> Injection:
    spec = tier.settings
    # vLLM's built-in class of that name reads neither isolated_ipc nor eager_prefetch; LMCache's
    # own does, and ours is that one with the identity in its keys.
    connector = modules.module(modules.MP_CONNECTOR)
    extra: Json = {
        modules.IDENTITY: engine.identity,
        "lmcache.mp.host": f"tcp://{facts.host(tier)}",
        "lmcache.mp.port": facts.MQ_PORT,
        # How long a starting engine waits for its node's agent before it gives up.
        "lmcache.mp.mq_timeout": facts.startup_seconds(tier),
        # A restart that no ping fell into goes unseen, and the engine stays unknown to its agent:
        # two pings fit into the shortest (LMCache's default is 10).
        "lmcache.mp.heartbeat_interval": facts.HEARTBEAT_SECONDS,
        "lmcache.mp.hash_algorithm": "blake3",
    }
    if spec.ipc == facts.ISOLATED:
        extra["lmcache.mp.isolated_ipc"] = True
    if spec.generated:
        extra["lmcache.mp.save_decode_cache"] = True
    if spec.prefetch.eager and spec.l2:
        extra["lmcache.mp.eager_prefetch"] = True
    return Injection(
        connector={
            "kv_connector": "LMCacheMPConnector",
            "kv_connector_module_path": connector.name,
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        },
        connector_options={"kv_load_failure_policy": "recompute"},
        **mounted(connector.files, modules.PATH),
        **_common(tier),
    )


def _sglang(tier: Tier, engine: Engine) -> Injection:
    """Return the wiring of SGLang: by environment, or by a file for older releases.

    The flag names our cache: an SGLang that has not loaded our plugin stops, rather than keeping
    blocks under the model argument alone.
    """
    extra = {"lmcache.mp.mq_timeout": facts.startup_seconds(tier)}
    flags = {"--enable-lmcache": None, "--radix-cache-backend": modules.SGLANG_NAME}
    env = [{"name": modules.SGLANG_IDENTITY, "value": engine.identity}]
    files = modules.sglang_plugin()
    if "lmcache_env" in engine.features:
        env += (
            {"name": "LMCACHE_MP_HOST", "value": f"tcp://{facts.host(tier)}"},
            {"name": "LMCACHE_MP_PORT", "value": str(facts.MQ_PORT)},
            {"name": "LMCACHE_EXTRA_CONFIG", "value": json.dumps(extra)},
        )
    else:
        # Without a scheme: lmcache 0.5.4 puts one before it, newer ones where there is none.
        config = {"mp_host": facts.host(tier), "mp_port": facts.MQ_PORT, "extra_config": extra}
        text = yaml.safe_dump(config, sort_keys=False)
        file = file_name("lmcache", text, "yaml")
        flags["--lmcache-config-file"] = f"{modules.PATH}/{file}"
        files |= {file: text}
    return Injection(
        flags=flags,
        env=tuple(env),
        **mounted(files, modules.PATH),
        **_common(tier),
    )


def _common(tier: Tier) -> Json:
    """Return the fields for every engine: nodes, labels, shared memory, no telemetry."""
    spec = tier.settings
    return {
        "backend": "LMCache",
        "env_if_absent": ({"name": "LMCACHE_TRACK_USAGE", "value": "false"},),
        "labels": tier.wired_labels,
        "node_selector": dict(tier.spec.nodes.selector),
        "shm": SharedMemory(host=spec.ipc == facts.SHARED_MEMORY),
    }


_ENGINES: dict[str, Callable[[Tier, Engine], Injection]] = {VLLM: _vllm, SGLANG: _sglang}
