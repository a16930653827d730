"""LMCache: a server on each node, or inside the engine.

The table `_MODES` holds what differs between the modes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from function.api.engines import SGLANG
from function.api.lmcache import LMCacheSpec
from function.backends.lmcache import (
    checks,
    conflicts,
    connector,
    facts,
    gpu,
    inprocess,
    l2,
    modules,
    pairings,
    redis,
    server,
)
from function.backends.lmcache.facts import Tier
from function.backends.modules import SEARCH_PATHS
from function.contract.backend import Backend, Description, Part, Pinned
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.injection import Injection
from function.contract.recorded import Allowance
from function.contract.rules import Alert
from function.facts import Table
from function.problems import Refused
from function.reasons import Reason


@dataclass(frozen=True)
class _Mode:
    connector: str
    parts: Callable[[Tier], list[Part]]
    inject: Callable[[Tier, Engine], Injection]
    endpoints: Callable[[Tier], dict[str, str]]
    capacity: Callable[[Tier], int]
    outlives_pods: Callable[[Tier], bool]
    store: Callable[[Tier], str]
    spans_clusters: Callable[[Tier], bool]
    pinned: Callable[[Tier], tuple[Pinned, ...]]
    startup: Callable[[Tier], int] = lambda _: 0
    hints: Callable[[Tier], tuple[str, ...]] = lambda _: ()
    colocated_with_engines: bool = False


def _hints(tier: Tier) -> tuple[str, ...]:
    return (*gpu.hints(tier), *l2.hints(tier))


def _endpoints(tier: Tier) -> dict[str, str]:
    addresses = {"mq": f"tcp://{facts.host(tier)}:{facts.MQ_PORT}"}
    for level in tier.settings.l2:
        if level.redis is not None and level.redis.managed is not None:
            addresses[level.name] = f"redis://{redis.host(tier, level)}:{level.redis.port}"
    return addresses


_MODES = {
    facts.NODE_SERVER: _Mode(
        connector="LMCacheMPConnector",
        parts=server.parts,
        inject=connector.inject,
        endpoints=_endpoints,
        capacity=lambda tier: facts.first_level(tier).size_gib,
        outlives_pods=lambda _: True,
        store=l2.store,
        spans_clusters=l2.spans_clusters,
        pinned=server.pinned,
        startup=facts.startup_seconds,
        hints=_hints,
        colocated_with_engines=True,
    ),
    facts.IN_PROCESS: _Mode(
        connector="LMCacheConnectorV1",
        parts=lambda _: [],
        inject=inprocess.inject,
        endpoints=lambda _: {},
        capacity=lambda _: 0,
        outlives_pods=inprocess.shares_blocks,
        store=inprocess.store,
        spans_clusters=inprocess.spans_clusters,
        pinned=inprocess.pinned,
    ),
}


_ALLOWS = Allowance(
    connectors=frozenset({"LMCacheMPConnector", "LMCacheConnectorV1"}),
    modules=("lmcache.", f"{modules.PREFIX}_"),
    programs=modules.DIGESTS,
    search_paths=SEARCH_PATHS,
    flags=frozenset({"--enable-lmcache", "--lmcache-config-file", "--radix-cache-backend"}),
    env=frozenset(
        (
            modules.SGLANG_IDENTITY,
            "LMCACHE_CONFIG_FILE",
            "LMCACHE_EXTRA_CONFIG",
            "LMCACHE_MP_HOST",
            "LMCACHE_MP_PORT",
            "LMCACHE_TRACK_USAGE",
            "PYTHONHASHSEED",
        )
    ),
    secrets=frozenset({"LMCACHE_RESP_PASSWORD"}),
    mounts=("/etc/kv-offload", "/mnt/kv-offload", "/var/cache/kv-offload"),
    volumes=frozenset({"emptyDir", "persistentVolumeClaim"}),
    host_shm=True,
)


@dataclass(frozen=True)
class LMCache(Backend[LMCacheSpec]):
    """The LMCache backend (see `function.contract.backend.Backend`)."""

    name: str = "LMCache"
    field: str = "lmcache"
    allows: Allowance = _ALLOWS
    rows = Rows.of(Path(__file__).with_name("facts.yaml"))
    alerts = Table(Alert, Path(__file__).with_name("alerts.yaml"), "alerts")

    problems = staticmethod(checks.problems)

    def parts(self, tier: Tier) -> list[Part]:
        return _mode(tier).parts(tier)

    def describe(self, tier: Tier) -> Description:
        mode = _mode(tier)
        return Description(
            endpoints=mode.endpoints(tier),
            pod_security=checks.pod_security(tier),
            capacity_gib_per_agent=mode.capacity(tier),
            warnings=tuple(checks.warnings(tier)),
            outlives_pods=mode.outlives_pods(tier),
            store=mode.store(tier),
            spans_clusters=mode.spans_clusters(tier),
            startup_seconds=mode.startup(tier),
            startup_hints=mode.hints(tier),
            colocated_with_engines=mode.colocated_with_engines,
            hides_hits=True,  # SGLang's, in some releases
        )

    def gate(self, tier: Tier, engine: Engine) -> Question:
        """Return the gate's question: the mode's connector and LMCache's version.

        Raise Refused for an engine without a connector for the mode, with an alternative.
        """
        inside = tier.settings.mode == facts.IN_PROCESS
        if inside and engine.name == SGLANG:
            raise Refused(
                Reason.ENGINE_UNSUPPORTED,
                "SGLang has no connector for LMCache inside the engine. Use a tier with "
                "spec.lmcache.mode NodeServer and ipc SharedMemory, or of backend HiCache or "
                "Mooncake.",
            )
        return Question(
            _mode(tier).connector,
            engine,
            self.rows,
            _client_version(engine) if inside else facts.image(tier).version,
            pairings.pairings(tier, engine),
            pairings.alternatives(tier, engine),
            "" if inside else str(tier.settings.ipc),
            facts.level_types(tier),
            inprocess.notes(tier, engine) if inside else (),
        )

    def inject(self, tier: Tier, engine: Engine) -> Injection:
        conflicts.CONFLICTS.check(tier, engine)
        return _mode(tier).inject(tier, engine)

    def metrics_ports(self, tier: Tier) -> tuple[int, ...]:
        return () if tier.settings.mode == facts.IN_PROCESS else (facts.HTTP_PORT,)

    def pinned(self, tier: Tier) -> tuple[Pinned, ...]:
        return _mode(tier).pinned(tier)


def _client_version(engine: Engine) -> Version | None:
    """Return LMCache's version in the engine's image, None if several are possible."""
    versions = engine.package("lmcache").versions or ()
    return Version(versions[0]) if len(versions) == 1 else None


def _mode(tier: Tier) -> _Mode:
    return _MODES[tier.settings.mode]


BACKEND = LMCache()
