"""What a tier's `spec.events` adds to an engine's wiring, whichever backend brings the rest.

Both engines publish by ZeroMQ, bound in the pod, each rank of data parallelism at a port of its
own. The topic is what llm-d's router reads: the pod's serving address and the model's served name.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from function.api.events import Events
from function.contract import events as names
from function.contract.backend import AnyTier
from function.contract.engine import Engine
from function.contract.injection import Injection, Json
from function.engines import events as flags
from function.engines import ranks
from function.engines.kind import EventFlags
from function.engines.registry import kind
from function.problems import Refused
from function.reasons import Reason

SPEC = "spec.events"


def assumes(tier: AnyTier, engine_name: str) -> Mapping[str, str]:
    """Return the flags that events set where they are absent (see `Backend.assumes`)."""
    asked = tier.spec.events
    published = kind(engine_name).events
    if asked is None or asked.block_tokens is None or published is None:
        return {}
    return {published.block: str(asked.block_tokens)}


def with_event_flags(tier: AnyTier, engine: Engine, own: Mapping[str, str]) -> Engine:
    """Return the engine with the flags that events bring: its backend judges ports and blocks.

    `own`: what the backend sets where it is absent (`Backend.assumes`), which is left to it.
    """
    asked, published = tier.spec.events, kind(engine.name).events
    if asked is None or published is None:
        return engine
    blocks = {k: v for k, v in assumes(tier, engine.name).items() if k not in own}
    added = {names.FLAG: json.dumps(_config(asked, published, engine))}
    return replace(engine, flags={**blocks, **added, **engine.flags})


def publish(
    tier: AnyTier,
    engine: Engine,
    injection: Injection,
    *,
    expands: bool = True,
    takes: Callable[[Engine], bool] = lambda _: False,
) -> tuple[Injection, tuple[str, ...]]:
    """Return the injection with the tier's events, and notes for the condition.

    `expands`: Kubernetes expands `$(VAR)` in the engine's arguments. `takes`: whether the tier's
    backend takes an engine that has a seed of its own. Raise Refused: PodConflict for a port that
    is taken, ConnectorConflict for another seed or block size.
    """
    asked = tier.spec.events
    if asked is None:
        return injection, ()
    published = kind(engine.name).events
    if published is None:
        return injection, (f"{SPEC} is left out: {engine.name} publishes no KV events",)
    injection = _set_seed_and_block_size(asked, published, engine, injection, takes)
    if engine.has(names.FLAG):
        return injection, tuple(_note_own_port(asked, engine))
    if not expands:
        note = f"{SPEC} is left out: Ray Serve places the replicas, and no pod's address is known"
        return injection, (note,)
    _collides(asked, engine, injection)
    config = _config(asked, published, engine)
    address: Json = {"name": names.POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    # An address must stand before what is expanded with it.
    injection = replace(
        injection, env=(address, *injection.env), ports=(*injection.ports, *_ports(asked, engine))
    )
    if published.merged:
        return replace(injection, kv_events=config), tuple(_notes(engine))
    text = json.dumps(config, separators=(",", ":"), sort_keys=True)
    injection = replace(injection, flags={**injection.flags, names.FLAG: text})
    return injection, tuple(_notes(engine))


def _config(asked: Events, published: EventFlags, engine: Engine) -> Json:
    model = (engine.flag("--served-model-name") or engine.model).split(" ")[0].replace("$", "$$")
    topic = f"{names.TOPICS}$({names.POD_IP}):{flags.serving(engine)}@{model}"
    config: Json = {
        "publisher": "zmq",
        "endpoint": f"{names.BIND}{asked.port}",
        "topic": topic,
        **published.config,
    }
    if asked.replay_port is not None:
        config["replay_endpoint"] = f"{names.BIND}{asked.replay_port}"
    return config


def _set_seed_and_block_size(
    asked: Events,
    published: EventFlags,
    engine: Engine,
    injection: Injection,
    takes: Callable[[Engine], bool],
) -> Injection:
    """Set seed and block size, where the tier wants them equal. Raise Refused."""
    if asked.block_tokens is not None:
        flag, value = published.block, str(asked.block_tokens)
        own = injection.flags.get(flag, value)
        if own != value:
            raise _conflict("blockTokens", value, f"the tier's backend sets {flag} {own}")
        # Another value of the pod's own is refused where flags are planned.
        injection = replace(injection, flags={**injection.flags, flag: value})
    if asked.hash_seed is None:
        return injection
    value = str(asked.hash_seed)
    seeded = replace(engine, env={**engine.env, names.SEED: value})
    for variable in (*injection.env, *injection.env_if_absent):
        if variable["name"] == names.SEED and variable.get("value") != value:
            if variable in injection.env_if_absent and takes(seeded):
                continue  # a default, which only had to be the same in every engine
            said = f"the tier's backend sets {names.SEED} to {variable.get('value')}"
            raise _conflict("hashSeed", value, said)
    if engine.env.get(names.SEED, value) != value:
        given = engine.env[names.SEED] or "not a plain value"
        raise _conflict("hashSeed", value, f"{names.SEED} is {given} in the pod")
    seed = {"name": names.SEED, "value": value}
    others = [v for v in injection.env_if_absent if v["name"] != names.SEED]
    if any(v["name"] == names.SEED for v in injection.env):
        return injection
    return replace(
        injection,
        env_if_absent=(*others, seed),
        ray_env=tuple(dict.fromkeys((*injection.ray_env, names.SEED))),
    )


def _conflict(field: str, value: str, other: str) -> Refused:
    return Refused(
        Reason.CONNECTOR_CONFLICT,
        f"{SPEC}.{field} is {value} and {other}: a router would look for other blocks than this "
        "engine has. Make them equal, or leave the field out, as routers that hash the tokens of "
        "the events themselves need neither (docs/events.md).",
    )


def _note_own_port(asked: Events, engine: Engine) -> Iterator[str]:
    """Yield a note when the pod keeps its own --kv-events-config on another port."""
    own = flags.port(engine)
    if own != asked.port:
        where = f"at port {own}" if own else "at a port that cannot be seen"
        yield (
            f"{names.FLAG} stays as the pod has it, {where}: a router that reads the tier's events "
            f"looks at {asked.port} ({SPEC}.port)"
        )


def _collides(asked: Events, engine: Engine, injection: Injection) -> None:
    """Raise Refused where a port is needed twice in the pod."""
    taken = {flags.serving(engine): "the engine's own (--port)"}
    for port in injection.ports:
        taken.setdefault(port["containerPort"], f"the tier's ({port['name']})")
    for _, first, field in _ranges(asked):
        for number in range(first, first + ranks.replicas(engine)):
            if number in taken:
                raise Refused(
                    Reason.POD_CONFLICT,
                    f"port {number} is {taken[number]} and an event port ({field}, one for each "
                    "rank of data parallelism). Give one of them another.",
                )
            taken[number] = f"an event port ({field})"


def _notes(engine: Engine) -> Iterator[str]:
    if engine.pods > 1 and ranks.replicas(engine) > 1:
        yield (
            "ranks of data parallelism publish at the tier's port plus their number over all pods: "
            "a router that counts them in each pod finds those of the first pod alone"
        )


def _ranges(asked: Events) -> Iterator[tuple[str, int, str]]:
    """Yield (name of the ports, the first, its field) of what is published."""
    yield names.LIVE, asked.port, f"{SPEC}.port"
    if asked.replay_port is not None:
        yield names.REPLAY, asked.replay_port, f"{SPEC}.replayPort"


def _ports(asked: Events, engine: Engine) -> tuple[Json, ...]:
    return tuple(
        {"name": f"{name}-{rank}", "containerPort": first + rank}
        for name, first, _ in _ranges(asked)
        for rank in range(min(ranks.replicas(engine), names.MOST))
    )
