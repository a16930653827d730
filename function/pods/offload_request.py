"""Read a desired resource: the workload in it, its engines, the tier that they name.

A tier is named by the annotation of a pod template (one member's counts for its gang), or by
`kvOffloadTierRef` of the composite, which then counts for every engine of the composite that names
nothing itself and whose argv or image proves that it is one: a router is no engine. Where nothing
of the composite proves to be one, whatever might be one is doubtful, and is told so instead of
running unwired.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from function import workloads
from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.api.messages import describe_error
from function.engines import config_file
from function.kube import access, objects
from function.kube.access import Json
from function.pods import record
from function.pods.declared import declared
from function.pods.gang import EngineRequest, GangReader
from function.pods.ignored_annotations import (
    IgnoredAnnotation,
    ignored_annotations,
    on_pod_templates,
)
from function.pods.record import Record
from function.pods.refs import Ref
from function.pods.siblings import SiblingResources, Texts
from function.problems import Refused, field_path
from function.reasons import Policy, Reason
from function.workloads import kinds, pod_shape
from function.workloads.model import Workload

NO_WORKLOAD = Workload()
NO_SIBLINGS = SiblingResources()
_STARTED = ("env", "command")
# Kinds that come to an end, and serve nothing.
_ENDING = frozenset({"Job", "CronJob"})

# Where a composite of one's own, and a ModelDeployment, name the tier.
_FIELDS = (("spec", "template", "spec", "kvOffloadTierRef"), ("spec", "kvOffloadTierRef"))


@dataclass(frozen=True)
class OffloadRequest:
    """A workload of which at least one engine requests a tier, or was wired before.

    `resource`: what the earlier step desires under `key`; `manifest`: the workload in it. `ref` is
    None when no engine requests a tier any more. `refused`: why the request itself is wrong.
    `digest`: of the pod templates as their author wrote them, and of the flags that their engines
    read from ConfigMaps. `record`: of an earlier wiring, and `unreadable`: why it cannot be read.
    `doubtful`: a field of the composite names the tier, and nothing shows that this is an engine.
    `siblings`: what else the composite desires.
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

    @property
    def is_bare(self) -> bool:
        """Return whether it is no Object's manifest."""
        return self.manifest is self.resource

    @property
    def remote_namespace(self) -> str:
        """Return the namespace of its pods on the workload cluster."""
        return _namespace(self.manifest)

    @cached_property
    def texts(self) -> Texts:
        """Return the texts of the visible ConfigMaps that its pods may mount."""
        return _texts(self.resource, self.manifest, self.siblings)


def composite_reference(composite: Mapping[str, Any]) -> KVOffloadTierRef | Refused | None:
    """Return the tier that a field of the composite names: None without one, Refused if wrong."""
    for path in _FIELDS:
        value = access.at(composite, *path)
        if value is None:
            continue
        try:
            return KVOffloadTierRef.model_validate(value)
        except ValidationError as error:
            found = [describe_error(KVOffloadTierRef, value, each) for each in error.errors()]
            return Refused.all_of(
                [
                    Refused(Reason.INVALID_INPUT, message, field_path((*path, *place)))
                    for place, message in found
                ]
            )
    return None


def find(
    key: str,
    resource: Json,
    reference: KVOffloadTierRef | Refused | None,
    step_input: Input,
    recorded: str,
    siblings: SiblingResources = NO_SIBLINGS,
) -> OffloadRequest | None:
    """Return the request in a desired resource; None where it is no workload, or has none.

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
    found: Json = {"record": known, "unreadable": unreadable, "siblings": siblings}
    try:
        workload = workloads.find(manifest, paths(key, manifest, step_input))
        if workload is None:
            return None
        found |= {"workload": workload, "digest": record.digest(_bodies(workload))}
        texts = _texts(resource, manifest, siblings)
        gangs = [GangReader(gang, step_input, texts) for gang in workload.engines]
        engines = _read_requesting(gangs, reference, step_input)
        if not engines and reference is not None and manifest.get("kind") not in _ENDING:
            found["doubtful"] = True
            engines = _read_all(gangs, reference, step_input)
        if files := _flag_files(engines):
            found["digest"] = record.digest(_bodies(workload) | files)
        named, policy = _agreed(engines)
    except Refused as refused:
        return OffloadRequest(key, resource, manifest, cluster, refused=refused, **found)
    if named is None and known is None and not unreadable:
        return None
    found |= {"engines": engines, "ref": named, "policy": policy}
    path, wrong = pod_shape.find_owner_problem(resource)
    if wrong and named is not None and policy is not Policy.OFF:
        found["refused"] = Refused(Reason.POD_CONFLICT, wrong, path)
    return OffloadRequest(key, resource, manifest, cluster, **found)


def unread(key: str, resource: Json, recorded: str, why: Refused) -> OffloadRequest:
    """Return the request of a workload that could not be read: its record is all that is known."""
    known, unreadable = record.load(recorded) if recorded else (None, "")
    manifest = objects.unwrap(resource) or {}
    return OffloadRequest(
        key, resource, manifest, "", record=known, unreadable=unreadable, refused=why
    )


def ignored_annotations_in(
    key: str, resource: Json, step_input: Input, request: OffloadRequest | None
) -> tuple[IgnoredAnnotation, ...]:
    """Return the annotations that nothing reads; `request` is what `find` returned for it."""
    manifest = objects.unwrap(resource)
    if manifest is None:
        return ignored_annotations(resource, ())
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
    if workload is None:
        instead = kinds.elsewhere(manifest)
    else:
        instead = on_pod_templates(workloads.annotation_paths(workload))
    return (
        *ignored_annotations(outside, (), instead or on_pod_templates()),
        *ignored_annotations(manifest, read, instead),
    )


def paths(key: str, manifest: Json, step_input: Input) -> tuple[str, ...]:
    """Return where the Input says that pod templates of this workload stand."""
    kind = manifest.get("kind")
    return tuple(p.path for p in step_input.paths if p.resource == key or p.kind == kind)


def _texts(resource: Json, manifest: Json, siblings: SiblingResources) -> Texts:
    return siblings.config_maps.mountable_by(resource, _namespace(manifest))


def _namespace(manifest: Json) -> str:
    metadata = manifest.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return str(namespace or "default")


def _bodies(workload: Workload) -> Json:
    return {template.path: template.body for template in workload.templates}


def _flag_files(engines: tuple[EngineRequest, ...]) -> Json:
    """Return what engines read from ConfigMaps, by template; in flags comments are no change."""
    found: Json = {}
    for pod in (pod for engine in engines for pod in engine.pods):
        files = [list(call.config.words) for call in pod.calls if call.config is not None]
        if any(files):
            found[f"{pod.template.path}: {config_file.FLAG}"] = files
        if pod.started:
            found[f"{pod.template.path}: started"] = [pod.container.get(k) for k in _STARTED]
    return found


def _read_requesting(
    gangs: Iterable[GangReader], reference: KVOffloadTierRef | Refused | None, step_input: Input
) -> tuple[EngineRequest, ...]:
    """Read the engines that request a tier, each once."""
    out = []
    for reader in gangs:
        bodies = [template.body for template in reader.gang.templates]
        own = declared(bodies, None, step_input)
        if own.ref is None and not (reference is not None and reader.is_engine(own)):
            continue
        if isinstance(reference, Refused):
            if own.ref is None:
                raise reference
            out.append(reader.engine(own))
        else:
            whole = own if reference is None else declared(bodies, reference, step_input)
            out.append(reader.engine(whole))
    return tuple(out)


def _read_all(
    gangs: Iterable[GangReader], reference: KVOffloadTierRef | Refused, step_input: Input
) -> tuple[EngineRequest, ...]:
    """Read every gang as if it were the engine that the composite's field means."""
    if isinstance(reference, Refused):
        raise reference
    return tuple(
        reader.engine(declared((t.body for t in reader.gang.templates), reference, step_input))
        for reader in gangs
    )


def _agreed(engines: tuple[EngineRequest, ...]) -> tuple[Ref | None, Policy]:
    """Return the one tier and policy of the workload's engines. Raise TierConflict for several."""
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
