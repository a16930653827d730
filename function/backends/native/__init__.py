"""Native: vLLM's own offloading in the engine, and levels that engines share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from function.api.engines import VLLM
from function.api.native import NativeSpec
from function.backends import evictor, volumes
from function.backends.native import connector, evict, facts
from function.backends.native.facts import Tier
from function.contract import namespaces
from function.contract.backend import Backend, Description, Pinned
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.recorded import Allowance
from function.contract.rules import Alert
from function.facts import Table
from function.problems import Problem, Refused
from function.reasons import Reason


@dataclass(frozen=True)
class Native(Backend[NativeSpec]):
    """The Native backend (see `function.contract.backend.Backend`)."""

    name: str = "Native"
    field: str = "native"
    allows: Allowance = connector.ALLOWS
    rows = Rows.of(Path(__file__).with_name("facts.yaml"))
    alerts = Table(Alert, Path(__file__).with_name("alerts.yaml"), "alerts")

    def problems(self, tier: Tier) -> list[Problem]:
        return sorted(_problems(tier))

    parts = staticmethod(evict.parts)

    def describe(self, tier: Tier) -> Description:
        return Description(
            pod_security=volumes.pod_security(evict.bounded(tier)),
            warnings=tuple(_warnings(tier)),
            outlives_pods=bool(tier.settings.secondary),
            spans_clusters=any(level.bucket for level in tier.settings.secondary),
        )

    def gate(self, tier: Tier, engine: Engine) -> Question:
        """Return the gate's question: the row of the connector or of its lower levels.

        Raise Refused for an engine other than vLLM, with an alternative.
        """
        if engine.name != VLLM:
            raise Refused(
                Reason.ENGINE_UNSUPPORTED,
                f"Native works with vLLM only; this engine is {engine.name}. Use a tier of backend "
                "HiCache, or Mooncake for both engines.",
            )
        return Question(
            facts.row(tier),
            engine,
            self.rows,
            mode=facts.mode(tier),
            levels=facts.level_types(tier),
        )

    inject = staticmethod(connector.inject)

    def pinned(self, tier: Tier) -> tuple[Pinned, ...]:
        """Return the volumes: running engines keep writing to them."""
        why = "running engines keep the volumes that they were started with"
        value = ", ".join(
            f"{level.name} at {files.claim.namespace}/{facts.claim(tier, level)}"
            for level, files in facts.file_systems(tier)
        )
        nothing = "no files"
        return (Pinned("spec.native.secondary", value or nothing, why, unset=nothing),)


def _problems(tier: Tier) -> Iterator[Problem]:
    """Yield volumes used twice, and buckets with different credentials in one pod."""
    seen: dict[tuple[str, str], str] = {}
    secrets: dict[str, object] = {}
    for index, level in enumerate(tier.settings.secondary):
        path = f"spec.native.secondary[{index}]"
        if level.file_system is not None:
            key = (level.file_system.claim.namespace, facts.claim(tier, level))
            if key in seen:
                where = f"{path}.fileSystem.claim"
                yield Problem(where, f"is the volume of {seen[key]}: give each level its own")
            seen.setdefault(key, path)
            where = f"{path}.fileSystem.claim.namespace"
            yield from namespaces.claim_problems(tier, key[0], where)
        if level.bucket is not None:
            secret = level.bucket.credentials_secret
            first = next(iter(secrets), None)
            if first is not None and secrets[first] != secret:
                where = f"{path}.bucket.credentialsSecret"
                yield Problem(where, f"must equal that of {first}: a pod has one access key")
            secrets[path] = secret
    if facts.peers(tier) and tier.spec.events and tier.spec.events.hash_seed is not None:
        yield Problem(
            "spec.events.hashSeed",
            "must be left out with a level of type Peers: PYTHONHASHSEED carries the cache "
            "identity there, and every pod would be refused",
        )
    others = [i for i, level in enumerate(tier.settings.secondary) if level.peers]
    for index in others[1:]:
        yield Problem(
            f"spec.native.secondary[{index}]", "is a second level of type Peers: remove it"
        )
    places = {files.claim.namespace for _, files in facts.file_systems(tier)}
    if len(places) > 1:
        yield Problem(
            "spec.native.secondary",
            "has claims of several namespaces, which one pod cannot mount: give each namespace its "
            "own tier",
        )


def _warnings(tier: Tier) -> Iterator[str]:
    types = {level.type for level in tier.settings.secondary}
    if types:
        yield "Levels below vLLM's memory are not yet tested on a GPU."
    if "Peers" in types:
        yield (
            "Peers need a router that names one in each request, NIXL in the engines' image, and "
            "open ports between the engines."
        )
    simple = tier.settings.simple
    if simple is not None:
        yield "vLLM's simple connector is not yet tested on a GPU."
    if simple is not None and simple.disk is not None and not simple.disk.storage_class_name:
        yield (
            "Blocks fill an emptyDir on the nodes' own disk: set simple.disk.storageClassName to "
            "use another one."
        )
    if "Bucket" in types:
        yield (
            "vLLM does not bound a bucket: give it a lifecycle rule. The engines' image needs a "
            "NIXL whose OBJ plugin loads (nixl-cu13 1.5.1 lacks a library)."
        )
    if any(not files.claim.name for _, files in facts.file_systems(tier)):
        yield "The claim is not deleted with the tier."
    if "FileSystem" in types and tier.settings.evictor.dry_run:
        yield evictor.DRY_RUN_WARNING


BACKEND = Native()
