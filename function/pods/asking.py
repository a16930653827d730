"""What a desired resource asks for: the workload in it, its engines, the tier they name.

A tier is named by the annotation of a pod template (one member's counts for its gang), or by
`kvOffloadTierRef` of the composite, which then counts for every engine of the composite that names
nothing itself and whose argv or image proves that it is one: a router is no engine. Where nothing
of the composite proves to be one, whatever might be one is doubtful, and is told so instead of
running unwired.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from function import workloads
from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.edge.memo import Derived
from function.engines import config_file
from function.kube import access, objects
from function.pods import record
from function.pods.beside import Beside, Texts
from function.pods.declared import declared
from function.pods.gang import AskingEngine, Reading
from function.pods.record import Record
from function.pods.refs import Ref
from function.pods.strays import Stray, strays
from function.problems import Refused
from function.reasons import Policy, Reason
from function.workloads import Workload

Json = dict[str, Any]

NO_WORKLOAD = Workload()
NOTHING_BESIDE = Beside()
# Kinds that come to an end, and serve nothing.
_ENDING = frozenset({"Job", "CronJob"})

# Where a composite of one's own, and a ModelDeployment, name the tier.
_FIELDS = (("spec", "template", "spec", "kvOffloadTierRef"), ("spec", "kvOffloadTierRef"))


@dataclass(frozen=True)
class Asking:
    """A workload of which at least one engine asks for a tier, or was wired before.

    `resource`: what the earlier step desires under `key`; `manifest`: the workload in it.
    `ref` is None when nothing asks any more. `refused`: why the asking itself is wrong.
    `digest`: of the pod templates as their author wrote them, and of the flags that their engines
    read from ConfigMaps. `record`: of an earlier wiring, and
    `unreadable`: why there is one that cannot be read. `beside`: what the composite desires beside
    it.
    """

    key: str
    resource: Json
    manifest: Json
    provider_config: str
    workload: Workload = NO_WORKLOAD
    digest: str = ""
    engines: tuple[AskingEngine, ...] = ()
    ref: Ref | None = None
    policy: Policy = Policy.REQUIRED
    refused: Refused | None = field(default=None, compare=False)
    record: Record | None = None
    unreadable: str = ""
    # A field of the composite asks for it, and nothing shows that it is an engine.
    doubtful: bool = False
    beside: Beside = NOTHING_BESIDE
    # What was worked out from it, kept as long as it is.
    derived: Derived = field(default_factory=Derived, compare=False, repr=False)

    @property
    def remote_namespace(self) -> str:
        metadata = self.manifest.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
        return str(namespace or "default")

    @cached_property
    def texts(self) -> Texts:
        """The texts of the ConfigMaps that its pods may mount, as far as they can be seen."""
        return self.beside.config_maps.beside(self.resource, self.remote_namespace)


def composite_reference(composite: Mapping[str, Any]) -> KVOffloadTierRef | Refused | None:
    """The tier that a field of the composite names; None without one, Refused where it is wrong."""
    for path in _FIELDS:
        value = access.at(composite, *path)
        if value is None:
            continue
        try:
            return KVOffloadTierRef.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join((*path, *(str(part) for part in first["loc"])))
            return Refused(Reason.INVALID_INPUT, str(first["msg"]), where)
    return None


def find(
    key: str,
    resource: Json,
    reference: KVOffloadTierRef | Refused | None,
    step_input: Input,
    recorded: str,
    beside: Beside = NOTHING_BESIDE,
) -> Asking | None:
    """What the desired resource asks for; None when it is no workload, or asks for nothing.

    `reference`: what `composite_reference` found. `recorded`: the text of the record on the
    observed resource, "" without one. `beside`: what its pods may refer to.
    """
    manifest = objects.unwrapped(resource)
    if manifest is None:
        return None
    known, unreadable = record.load(recorded) if recorded else (None, "")
    cluster = step_input.control_plane_cluster or ""
    if manifest is not resource:
        cluster = objects.provider_config(resource)
    asking = Asking(
        key, resource, manifest, cluster, record=known, unreadable=unreadable, beside=beside
    )
    try:
        workload = workloads.find(manifest, paths(key, manifest, step_input))
        if workload is None:
            return None
        asking = replace(asking, workload=workload, digest=_digest(workload, ()))
        engines = _asking(asking, reference, step_input)
        if not engines and reference is not None and manifest.get("kind") not in _ENDING:
            asking = replace(asking, doubtful=True)
            engines = _doubtful(asking, reference, step_input)
        asking = replace(asking, digest=_digest(workload, engines))
        named, policy = _agreed(engines)
    except Refused as refused:
        return replace(asking, refused=refused)
    if named is None and known is None and not unreadable:
        return None
    return replace(asking, engines=engines, ref=named, policy=policy)


def unread(key: str, resource: Json, recorded: str, why: Refused) -> Asking:
    """A workload of which nothing is known but its record: reading it failed."""
    known, unreadable = record.load(recorded) if recorded else (None, "")
    manifest = objects.unwrapped(resource) or {}
    return Asking(key, resource, manifest, "", record=known, unreadable=unreadable, refused=why)


def strays_in(
    key: str, resource: Json, step_input: Input, asking: Asking | None
) -> tuple[Stray, ...]:
    """The requests in a desired resource that nobody reads. `asking`: what `find` gave for it."""
    manifest = objects.unwrapped(resource)
    if manifest is None:
        return strays(resource, (), known=False)
    if asking is not None and asking.workload is NO_WORKLOAD:
        return ()  # it could not be read: said where it is asked
    try:
        workload = (
            asking.workload
            if asking is not None
            else workloads.find(manifest, paths(key, manifest, step_input))
        )
    except Refused:
        return ()
    read = {
        (str(name), value)
        for template in (workload.templates if workload else ())
        for name, value in access.mapping(template.body, "metadata", "annotations").items()
        if isinstance(value, str)
    }
    # Beside the manifest an Object's own metadata may hold a request that does nothing.
    outside = {k: v for k, v in resource.items() if manifest is not resource and k == "metadata"}
    return (*strays(outside, (), known=True), *strays(manifest, read, known=workload is not None))


def paths(key: str, manifest: Json, step_input: Input) -> tuple[str, ...]:
    """Where the Input says that pod templates of this workload stand."""
    kind = manifest.get("kind")
    return tuple(p.path for p in step_input.paths if p.resource == key or p.kind == kind)


def _digest(workload: Workload, engines: tuple[AskingEngine, ...]) -> str:
    """Of the templates, and of what their engines read beside the argv: comments are no change."""
    bodies: Json = {template.path: template.body for template in workload.templates}
    for pod in (pod for engine in engines for pod in engine.pods):
        files = [list(call.config.words) for call in pod.calls if call.config is not None]
        if any(files):
            bodies[f"{pod.template.path}: {config_file.FLAG}"] = files
    return record.digest(bodies)


def _asking(
    asking: Asking, reference: KVOffloadTierRef | Refused | None, step_input: Input
) -> tuple[AskingEngine, ...]:
    """The engines that ask, each read once."""
    by_field = None if isinstance(reference, Refused) else reference
    out = []
    for gang in asking.workload.engines:
        pods = Reading(gang, step_input, asking.texts)
        own = declared((t.body for t in gang.templates), None, step_input)
        if own.ref is None and not (reference is not None and pods.is_engine(own)):
            continue
        if own.ref is None and isinstance(reference, Refused):
            raise reference
        out.append(pods.engine(declared((t.body for t in gang.templates), by_field, step_input)))
    return tuple(out)


def _doubtful(
    asking: Asking, reference: KVOffloadTierRef | Refused, step_input: Input
) -> tuple[AskingEngine, ...]:
    """All gangs, as if each were the engine that the composite's field speaks of."""
    if isinstance(reference, Refused):
        raise reference
    return tuple(
        Reading(gang, step_input, asking.texts).engine(
            declared((t.body for t in gang.templates), reference, step_input)
        )
        for gang in asking.workload.engines
    )


def _agreed(engines: tuple[AskingEngine, ...]) -> tuple[Ref | None, Policy]:
    """The one tier and policy of the workload's engines. Raises TierConflict."""
    requests = {
        (engine.declared.ref, engine.declared.policy or Policy.REQUIRED) for engine in engines
    }
    if requests and {policy for _, policy in requests} == {Policy.OFF}:
        return min(requests, key=str)  # nothing will be wired: which tier does not matter
    if len(requests) > 1:
        said = ", ".join(sorted(f"{named} ({policy})" for named, policy in requests))
        raise Refused(
            Reason.TIER_CONFLICT, f"engines of one workload name different tiers: {said}; name one"
        )
    return next(iter(requests)) if requests else (None, Policy.REQUIRED)
