"""Conflicts of an engine pod with a Native tier: the cases of facts.yaml."""

from pathlib import Path

from function.backends import seeds
from function.backends.native import facts
from function.backends.native.facts import Tier
from function.contract.conflicts import Conflicts, expandable_segments, unknown_identity
from function.contract.engine import Engine
from function.engines import events, ranks


def _spans_pods(_: Tier, engine: Engine) -> str | None:
    shared = ranks.sharing(engine)
    # With fewer ranks than pods, the scheduler may be in another one: in the head of a Ray cluster.
    apart = shared > ranks.spread(engine) or shared * ranks.replicas(engine) < engine.pods
    return str(engine.pods) if apart else None


def _in_other_namespace(tier: Tier, engine: Engine) -> str | None:
    for level, files in facts.file_systems(tier):
        if engine.namespace and files.claim.namespace != engine.namespace:
            return (
                f"Level {level.name} is a volume of namespace {files.claim.namespace}, but the "
                f"engine's pods are in {engine.namespace}"
            )
    return None


def _other_seed(tier: Tier, engine: Engine) -> str | None:
    seed = facts.seed(tier, engine)
    own = engine.env.get(seeds.SEED, seed)
    return None if own == seed else f"{own or 'not a plain value'} in the pod and {seed}"


def _has_bucket(tier: Tier, _: Engine) -> str | None:
    return "" if any(level.bucket is not None for level in tier.settings.secondary) else None


def _has_peers(tier: Tier, _: Engine) -> str | None:
    return "" if facts.peers(tier) else None


def _peers_port_taken(tier: Tier, engine: Engine) -> str | None:
    peers = facts.peers(tier)
    served = events.serving(engine)
    ranks = engine.number("--data-parallel-size")
    if peers is None or not peers.port <= served < peers.port + ranks:
        return None
    return str(served)


CONFLICTS = Conflicts(
    Path(__file__).with_name("facts.yaml"),
    _has_bucket,
    _has_peers,
    _in_other_namespace,
    _other_seed,
    _peers_port_taken,
    _spans_pods,
    expandable_segments,
    unknown_identity,
)
