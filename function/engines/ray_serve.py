"""Ray Serve LLM: an engine whose arguments are keyword arguments in a Serve configuration.

A RayService starts no engine by argv; its `serveConfigV2` lists LLMConfigs, whose `engine_kwargs`
are vLLM's arguments with underscores (Ray 2.5x, `ray.serve.llm`). They are read as words, so that
every rule about flags holds here too, and written back as keyword arguments.
"""

import json
from collections.abc import Mapping
from typing import Any

from function.api.engines import VLLM
from function.command import EngineCall, Program, Word
from function.contract.injection import Injection, Json
from function.engines.vllm.merge import merge
from function.kube import access
from function.problems import Refused
from function.reasons import Reason

ENTRYPOINT = "Ray Serve LLM"
_KV_TRANSFER = "kv_transfer_config"
# Keys of what a replica takes: `{GPU: 0.5}` puts two on one GPU.
_BUNDLES = frozenset(
    """placement_group_config resources_per_bundle placement_group_bundles placement_group_strategy
 ray_actor_options""".split()  # noqa: SIM905
)
# vLLM copies variables of some prefixes to its Ray workers, and those that this one names.
RAY_COPY = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"


def program(entry: Mapping[str, Any]) -> Program:
    """Return what an LLMConfig runs: one engine call, its keyword arguments as words."""
    loading = entry.get("model_loading_config") or {}
    model = loading.get("model_source") or loading.get("model_id")
    words = [_word("model", model)] if isinstance(model, str) else []
    words += [_word(str(k), v) for k, v in (entry.get("engine_kwargs") or {}).items()]
    return Program(calls=(EngineCall(VLLM, ENTRYPOINT, tuple(w for w in words if w is not None)),))


def most_copies(entry: Mapping[str, Any]) -> int | None:
    """Return how many engines of an LLMConfig Ray Serve starts at most; None where none says it."""
    deployment = access.mapping(entry, "deployment_config")
    found = deployment.get("num_replicas")
    scaling = deployment.get("autoscaling_config")
    if scaling is not None or found == "auto":
        found = access.mapping(deployment, "autoscaling_config").get("max_replicas")
    return found if isinstance(found, int) and found > 0 else None


def shares_gpus(entry: Mapping[str, Any]) -> bool:
    """Return whether an LLMConfig says what it takes of a GPU: it may be a part of one."""
    own = {*entry, *access.mapping(entry, "deployment_config")}
    return not own.isdisjoint(_BUNDLES)


def apply(entry: Mapping[str, Any], injection: Injection) -> Json:
    """Return the LLMConfig wired. Raise Refused(ConnectorConflict) for a user's other value."""
    kwargs = dict(entry.get("engine_kwargs") or {})
    for name in kwargs:
        if name.startswith("kv_offloading_"):
            raise Refused(
                Reason.CONNECTOR_CONFLICT,
                f"engine_kwargs.{name} replaces any connector in silence; remove it",
            )
    if injection.connector is not None:
        user = kwargs.get(_KV_TRANSFER)
        ours = _sorted(injection.connector), _sorted(injection.connector_options)
        merged = merge(user, *ours)
        kwargs[_KV_TRANSFER] = merged.config
    if injection.kv_events is not None:
        kwargs.setdefault("kv_events_config", _sorted(injection.kv_events))
    for flag, value in injection.flags.items():
        name = flag.removeprefix("--").replace("-", "_")
        wanted = True if value is None else value
        if kwargs.setdefault(name, wanted) != wanted:
            raise Refused(
                Reason.CONNECTOR_CONFLICT,
                f"engine_kwargs.{name} is {kwargs[name]!r}, and the tier needs {wanted!r}",
            )
    return {**entry, "engine_kwargs": kwargs}


def _sorted(ours: Mapping[str, Any]) -> Json:
    """Keys in the order in which a record gives them back: a replay writes the same text."""
    ordered: Json = json.loads(json.dumps(ours, sort_keys=True))
    return ordered


def _word(name: str, value: Any) -> Word | None:
    """`--flag=value` of a keyword argument; None for one that vLLM takes as absent."""
    flag = "--" + name.replace("_", "-")
    if value is None or value is False:
        return None
    if value is True:
        return Word(flag, flag, flag)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    word = f"{flag}={text}"
    return Word(word, word, word)
