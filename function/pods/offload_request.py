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
from function.pods.declared import declared
from function.pods.gang import EngineRequest, GangReader
from function.pods.ignored_annotations import IgnoredAnnotation, ignored_annotations
from function.pods.record import Record
from function.pods.refs import Ref
from function.pods.siblings import SiblingResources, Texts
from function.problems import Refused
from function.reasons import Policy, Reason
from function.workloads import Workload

Json = dict[str, Any]

NO_WORKLOAD = Workload()
NO_SIBLINGS = SiblingResources()
# Kinds that come to an end, and serve nothing.
_ENDING = frozenset({"Job", "CronJob"})

# Where a composite of one's own, and a ModelDeployment, name the tier.
_FIELDS = (("spec", "template", "spec", "kvOffloadTierRef"), ("spec", "kvOffloadTierRef"))


@dataclass(frozen=True)
class OffloadRequest:
    """A workload of which at least one engine asks for a tier, or was wired before.

    `resource`: what the earlier step desires under `key`; `manifest`: the workload in it.
    `ref` is None when nothing asks any more. `refused`: why the asking itself is wrong.
    `digest`: of the pod templates as their author wrote them, and of the flags that their engines
    read from ConfigMaps. `record`: of an earlier wiring, and
    `unreadable`: why it cannot be read. `siblings`: what else the composite desires.
    """

    key: str
    resource: Json
    manifest: Json
    provider_config: str
    workload: Workload = NO_WORKLOAD
    digest: str = ""
    engines: tuple[EngineRequest, ...] = ()
    ref: Ref | None = None
    policy: Policy = Policy.REQUIRED
    refused: Refused | None = field(default=None, compare=False)
    record: Record | None = None
    unreadable: str = ""
    # A field of the composite asks for it, and nothing shows that it is an engine.
    doubtful: bool = False
    siblings: SiblingResources = NO_SIBLINGS
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
        return self.siblings.config_maps.mountable_by(self.resource, self.remote_namespace)


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
    siblings: SiblingResources = NO_SIBLINGS,
) -> OffloadRequest | None:
    """What the desired resource asks for; None when it is no workload, or asks for nothing.

    `reference`: what `composite_reference` found. `recorded`: the text of the record on the
    observed resource, "" without one. `siblings`: what its pods may refer to.
    """
    manifest = objects.unwrap(resource)
    if manifest is None:
        return None
    known, unreadable = record.load(recorded) if recorded else (None, "")
    cluster = step_input.control_plane_cluster or ""
    if manifest is not resource:
        cluster = objects.provider_config(resource)
    request = OffloadRequest(
        key, resource, manifest, cluster, record=known, unreadable=unreadable, siblings=siblings
    )
    try:
        workload = workloads.find(manifest, paths(key, manifest, step_input))
        if workload is None:
            return None
        request = replace(request, workload=workload, digest=_digest(workload, ()))
        engines = _asking(request, reference, step_input)
        if not engines and reference is not None and manifest.get("kind") not in _ENDING:
            request = replace(request, doubtful=True)
            engines = _doubtful(request, reference, step_input)
        request = replace(request, digest=_digest(workload, engines))
        named, policy = _agreed(engines)
    except Refused as refused:
        return replace(request, refused=refused)
    if named is None and known is None and not unreadable:
        return None
    return replace(request, engines=engines, ref=named, policy=policy)


def unread(key: str, resource: Json, recorded: str, why: Refused) -> OffloadRequest:
    """A workload of which nothing is known but its record: reading it failed."""
    known, unreadable = record.load(recorded) if recorded else (None, "")
    manifest = objects.unwrap(resource) or {}
    return OffloadRequest(
        key, resource, manifest, "", record=known, unreadable=unreadable, refused=why
    )


def ignored_annotations_in(
    key: str, resource: Json, step_input: Input, request: OffloadRequest | None
) -> tuple[IgnoredAnnotation, ...]:
    """The requests in a desired resource that nobody reads. `asking`: what `find` gave for it."""
    manifest = objects.unwrap(resource)
    if manifest is None:
        return ignored_annotations(resource, (), known=False)
    if request is not None and request.workload is NO_WORKLOAD:
        return ()  # it could not be read: said where it is asked
    try:
        workload = (
            request.workload
            if request is not None
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
    return (
        *ignored_annotations(outside, (), known=True),
        *ignored_annotations(manifest, read, known=workload is not None),
    )


def paths(key: str, manifest: Json, step_input: Input) -> tuple[str, ...]:
    """Where the Input says that pod templates of this workload stand."""
    kind = manifest.get("kind")
    return tuple(p.path for p in step_input.paths if p.resource == key or p.kind == kind)


def _digest(workload: Workload, engines: tuple[EngineRequest, ...]) -> str:
    """Of the templates, and of what their engines read beside the argv: comments are no change."""
    bodies: Json = {template.path: template.body for template in workload.templates}
    for pod in (pod for engine in engines for pod in engine.pods):
        files = [list(call.config.words) for call in pod.calls if call.config is not None]
        if any(files):
            bodies[f"{pod.template.path}: {config_file.FLAG}"] = files
    return record.digest(bodies)


def _asking(
    request: OffloadRequest, reference: KVOffloadTierRef | Refused | None, step_input: Input
) -> tuple[EngineRequest, ...]:
    """The engines that ask, each read once."""
    by_field = None if isinstance(reference, Refused) else reference
    out = []
    for gang in request.workload.engines:
        pods = GangReader(gang, step_input, request.texts)
        own = declared((t.body for t in gang.templates), None, step_input)
        if own.ref is None and not (reference is not None and pods.is_engine(own)):
            continue
        if own.ref is None and isinstance(reference, Refused):
            raise reference
        out.append(pods.engine(declared((t.body for t in gang.templates), by_field, step_input)))
    return tuple(out)


def _doubtful(
    request: OffloadRequest, reference: KVOffloadTierRef | Refused, step_input: Input
) -> tuple[EngineRequest, ...]:
    """All gangs, as if each were the engine that the composite's field speaks of."""
    if isinstance(reference, Refused):
        raise reference
    return tuple(
        GangReader(gang, step_input, request.texts).engine(
            declared((t.body for t in gang.templates), reference, step_input)
        )
        for gang in request.workload.engines
    )


def _agreed(engines: tuple[EngineRequest, ...]) -> tuple[Ref | None, Policy]:
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
