"""What a desired resource asks for: the workload in it, its engines, the tier they name.

A tier is named by the annotation of a pod template (one member's counts for its gang), or by
`kvOffloadTierRef` of the composite, which then counts for every engine of the composite that names
nothing itself and whose argv or image proves that it is one: a router is no engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from function import command, workloads
from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.command.model import Program
from function.kube import objects
from function.pods import identify, record, serve
from function.pods.declared import Declared, declared
from function.pods.record import Record
from function.pods.refs import Ref
from function.problems import Refused
from function.workloads import Gang, Template, Workload, containers

Json = dict[str, Any]

# Where a composite of one's own, and a ModelDeployment, name the tier.
_FIELDS = (("spec", "template", "spec", "kvOffloadTierRef"), ("spec", "kvOffloadTierRef"))


@dataclass(frozen=True)
class Pod:
    """One template of an engine: a pod's serving container, or a Serve entry, and what it runs."""

    template: Template
    index: int
    container: Json
    program: Program


@dataclass(frozen=True)
class Asking:
    """One engine that asks for a tier."""

    gang: Gang
    declared: Declared


@dataclass(frozen=True)
class Target:
    """A workload of which at least one engine asks for a tier, or was wired before.

    `resource`: what the earlier step desires under `key`; `manifest`: the workload in it.
    `ref` is None when nothing asks any more. `refused`: why the asking itself is wrong.
    `digest`: of the pod templates as their author wrote them. `record`: of an earlier wiring, and
    `unreadable`: why there is one that cannot be read.
    """

    key: str
    resource: Json
    manifest: Json
    provider_config: str
    digest: str = ""
    asking: tuple[Asking, ...] = ()
    ref: Ref | None = None
    policy: str = "Required"
    refused: Refused | None = field(default=None, compare=False)
    record: Record | None = None
    unreadable: str = ""

    @property
    def remote_namespace(self) -> str:
        return str(self.manifest.get("metadata", {}).get("namespace") or "default")


def composite_reference(composite: Mapping[str, Any]) -> KVOffloadTierRef | Refused | None:
    """The tier that a field of the composite names; None without one, Refused where it is wrong."""
    for path in _FIELDS:
        value: Any = composite
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is None:
            continue
        try:
            return KVOffloadTierRef.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join((*path, *(str(part) for part in first["loc"])))
            return Refused("InvalidInput", str(first["msg"]), where)
    return None


def target(
    key: str,
    resource: Json,
    ref: KVOffloadTierRef | Refused | None,
    given: Input,
    recorded: str,
) -> Target | None:
    """What the desired resource asks for; None when it is no workload, or asks for nothing.

    `recorded`: the text of the record on the observed resource, "" without one.
    """
    manifest = objects.unwrapped(resource)
    if manifest is None:
        return None
    known, unreadable = record.load(recorded) if recorded else (None, "")
    cluster = given.control_plane_cluster or ""
    if manifest is not resource:
        cluster = str(resource["spec"].get("providerConfigRef", {}).get("name", ""))
    try:
        workload = workloads.find(manifest, paths(key, manifest, given))
        if workload is None:
            return None
        asking = _asking(workload, ref, given)
        named, policy = _agreed(asking, ref, given)
    except Refused as refused:
        return Target(
            key, resource, manifest, cluster, refused=refused, record=known, unreadable=unreadable
        )
    if named is None and known is None and not unreadable:
        return None
    return Target(
        key=key,
        resource=resource,
        manifest=manifest,
        provider_config=cluster,
        digest=record.digest({t.path: t.body for t in workload.templates}),
        asking=asking,
        ref=named,
        policy=policy,
        record=known,
        unreadable=unreadable,
    )


def pods(asking: Asking, given: Input) -> list[Pod]:
    """The engine's templates with their serving containers.

    Raises Refused: EngineContainerMissing, and PodConflict for a template that is malformed.
    """
    found = []
    for template in asking.gang.templates:
        if template.problem:
            raise Refused("PodConflict", template.problem)
        if template.kind == workloads.SERVE:
            found.append(Pod(template, -1, {}, serve.program(template.body)))
            continue
        spec = template.body.get("spec", {})
        index = containers.serving(spec, name=_named(spec, given), proves=_prover(given))
        container = spec["containers"][index]
        program = command.read(container, _image_call(container, asking.declared, given))
        if template.ray and not container.get("command") and not container.get("args"):
            program = Program(inert=True)
        found.append(Pod(template, index, container, program))
    return found


def _image_call(container: Json, said: Declared, given: Input) -> command.ImageCall | None:
    """What the image starts by itself: by the table, or the engine that somebody declares."""
    known = identify.image_call(container, given.engine_images)
    engine = said.engine or given.engine
    if known is not None or not engine:
        return known
    return command.ImageCall(engine, ("the image's entrypoint",))


def _named(spec: Mapping[str, Any], given: Input) -> str:
    """The Input's name for the container; its default gives way where no container has it."""
    if "container" in given.model_fields_set:
        return given.container
    names = [c.get("name") for c in spec.get("containers") or () if isinstance(c, dict)]
    return given.container if given.container in names else ""


def _prover(given: Input) -> Any:
    def proves(container: Json) -> bool:
        call = identify.image_call(container, given.engine_images)
        return bool(command.read(container, call).calls)

    return proves


def paths(key: str, manifest: Json, given: Input) -> tuple[str, ...]:
    """Where the Input says that pod templates of this workload stand."""
    kind = manifest.get("kind")
    return tuple(p.path for p in given.paths if p.resource == key or p.kind == kind)


def _asking(
    workload: Workload, ref: KVOffloadTierRef | Refused | None, given: Input
) -> tuple[Asking, ...]:
    out = []
    for gang in workload.engines:
        said = declared(t.body for t in gang.templates)
        if said.tier or (ref is not None and _is_engine(gang, said, given)):
            out.append(Asking(gang, said))
    return tuple(out)


def _is_engine(gang: Gang, said: Declared, given: Input) -> bool:
    """Whether a gang that names no tier itself is an engine, by declaration, argv or image.

    One that cannot be read counts as an engine: it is refused with its problem, never dropped.
    """
    if said.engine or any(t.kind == workloads.SERVE or t.problem for t in gang.templates):
        return True
    proves = _prover(given)
    return any(
        proves(c)
        for t in gang.templates
        if t.kind == workloads.POD
        for c in t.body.get("spec", {}).get("containers") or ()
        if isinstance(c, dict) and not containers.is_sidecar(c)
    )


def _agreed(
    asking: tuple[Asking, ...], ref: KVOffloadTierRef | Refused | None, given: Input
) -> tuple[Ref | None, str]:
    """The one tier and policy of the workload's engines. Raises TierConflict, InvalidInput."""
    wanted = set()
    for one in asking:
        said = one.declared
        if said.tier:
            named = Ref(said.namespace or given.tier_namespace, said.tier)
        elif isinstance(ref, Refused):
            raise ref
        else:
            named = Ref(ref.namespace, ref.name)
        by_field = "" if said.tier or isinstance(ref, Refused) or ref is None else ref.policy
        wanted.add((named, said.policy or by_field or "Required"))
    if wanted and {policy for _, policy in wanted} == {"Off"}:
        return min(wanted, key=str)  # nothing will be wired: which tier does not matter
    if len(wanted) > 1:
        said = ", ".join(sorted(f"{named} ({policy})" for named, policy in wanted))
        raise Refused(
            "TierConflict", f"engines of one workload name different tiers: {said}; name one"
        )
    return next(iter(wanted)) if wanted else (None, "Required")
