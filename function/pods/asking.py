"""What a desired resource asks for: the workload in it, its engines, the tier they name.

A tier is named by the annotation of a pod template (one member's counts for its gang), or by
`kvOffloadTierRef` of the composite, which then counts for every engine of the composite that names
nothing itself and whose argv or image proves that it is one: a router is no engine. Where nothing
of the composite proves to be one, whatever might be one is doubtful, and is told so instead of
running unwired.

Whatever is read of a pod here (its serving container, its argv, its flags) is kept, and nothing
later reads it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from function import command, flags, workloads
from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.command import ConfigFile, EngineCall, Program
from function.edge.memo import Derived
from function.flags import config_file
from function.kube import objects, reading
from function.pods import identify, identity, mounted, record, serve
from function.pods.beside import Beside, Texts
from function.pods.declared import Declared, declared
from function.pods.record import Record
from function.pods.refs import Ref
from function.pods.strays import Stray, strays
from function.problems import Refused
from function.reasons import Policy, Reason
from function.workloads import Gang, Template, Workload, containers

Json = dict[str, Any]

NO_WORKLOAD = Workload()
NOTHING_BESIDE = Beside()
# Reasons that leave a pod as its author wrote it, whatever the policy: it is not ours to wire.
LEFT_ALONE = frozenset({Reason.OUT_OF_SCOPE})
# Kinds that come to an end, and serve nothing.
_ENDING = frozenset({"Job", "CronJob"})

# Where a composite of one's own, and a ModelDeployment, name the tier.
_FIELDS = (("spec", "template", "spec", "kvOffloadTierRef"), ("spec", "kvOffloadTierRef"))


@dataclass(frozen=True)
class Pod:
    """One template of an engine: a pod's serving container, or a Serve entry, and what it runs.

    `beside`: names of the pod's other containers that start an engine.
    """

    template: Template
    index: int
    container: Json
    program: Program
    beside: tuple[str, ...] = ()

    @property
    def calls(self) -> tuple[EngineCall, ...]:
        return self.program.calls


@dataclass(frozen=True)
class AskingEngine:
    """One engine that asks for a tier: its templates, and what is known of it before the tier is.

    `refused`: why its pods cannot be read, or the engine not be told; the rest is then absent.
    `flags`: the effective flags of the first call that starts it.
    """

    gang: Gang
    declared: Declared
    pods: tuple[Pod, ...] = ()
    identified: identify.Identified | None = None
    flags: Mapping[str, str | None] = field(default_factory=dict)
    refused: Refused | None = field(default=None, compare=False)

    @property
    def left_alone(self) -> bool:
        """Whether it is no engine of ours, and no hindrance for those beside it."""
        return self.refused is not None and self.refused.reason in LEFT_ALONE

    @property
    def starting(self) -> tuple[Pod, ...]:
        """The pods that start the engine; all of them where argv shows none."""
        return tuple(pod for pod in self.pods if pod.calls) or self.pods

    @property
    def calls(self) -> tuple[EngineCall, ...]:
        return tuple(call for pod in self.pods for call in pod.calls)

    @property
    def model(self) -> str:
        """The string behind the model argument, "" when it is not there or not static."""
        return identity.model_string(self.identified.name, self.flags) if self.identified else ""


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

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The model strings of its engines, sorted; () where an engine cannot be told."""
        serving = [engine for engine in self.engines if not engine.left_alone]
        if any(engine.refused for engine in serving):
            return ()
        return tuple(sorted({engine.model for engine in serving}))


def composite_reference(composite: Mapping[str, Any]) -> KVOffloadTierRef | Refused | None:
    """The tier that a field of the composite names; None without one, Refused where it is wrong."""
    for path in _FIELDS:
        value = reading.at(composite, *path)
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
        for name, value in reading.mapping(template.body, "metadata", "annotations").items()
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
        reading = Reading(gang, step_input, asking.texts)
        own = declared((t.body for t in gang.templates), None, step_input)
        if own.ref is None and not (reference is not None and reading.is_engine(own)):
            continue
        if own.ref is None and isinstance(reference, Refused):
            raise reference
        out.append(reading.engine(declared((t.body for t in gang.templates), by_field, step_input)))
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


class Reading:
    """Reads the containers of one gang, each at most once for what its image is said to start.

    `texts`: of the ConfigMaps that its pods may mount.
    """

    def __init__(self, gang: Gang, step_input: Input, texts: Texts) -> None:
        self.gang = gang
        self.step_input = step_input
        self.texts = texts
        self._programs: dict[tuple[int, command.ImageCall | None], Program] = {}

    def engine(self, declaration: Declared) -> AskingEngine:
        """The gang as an engine that asks, or refused where it cannot be read."""
        try:
            pods = tuple(self._pod(template, declaration) for template in self.gang.templates)
            identified = identify.identify(
                [(pod.container, pod.program) for pod in pods],
                declaration,
                self.step_input.engine_images,
            )
        except Refused as refused:
            return AskingEngine(self.gang, declaration, refused=self._advised(refused))
        call = next((call for pod in pods for call in pod.calls), None)
        read = flags.read(identified.name, call) if call else {}
        return AskingEngine(self.gang, declaration, pods, identified, read)

    def _advised(self, refused: Refused) -> Refused:
        """With what the gang's kind lets its author do, where the engine cannot be told."""
        advice = next((t.advice for t in self.gang.templates if t.advice), "")
        if refused.reason is not Reason.ENGINE_UNKNOWN or not advice:
            return refused
        return Refused(refused.reason, f"{refused.message}; or {advice}", refused.path)

    def is_engine(self, declaration: Declared) -> bool:
        """Whether a gang that names no tier itself is an engine, by declaration, argv or image.

        One that cannot be read counts as an engine: it is refused with its problem, never dropped.
        """
        templates = self.gang.templates
        if declaration.engine or any(t.kind == workloads.SERVE or t.problem for t in templates):
            return True
        return any(
            self._proves(c)
            for t in templates
            if t.kind == workloads.POD
            for c in t.body.get("spec", {}).get("containers") or ()
            if isinstance(c, dict) and not containers.is_sidecar(c)
        )

    def _pod(self, template: Template, declaration: Declared) -> Pod:
        """Raises Refused: EngineContainerMissing, and PodConflict for a malformed template."""
        if template.problem:
            raise Refused(Reason.POD_CONFLICT, template.problem)
        if template.kind == workloads.SERVE:
            return Pod(template, -1, {}, serve.program(template.body))
        spec = template.body.get("spec", {})
        index = containers.serving(spec, name=self._named(spec), proves=self._proves)
        others = [c for i, c in enumerate(spec["containers"]) if i != index]
        beside = (c for c in others if not containers.is_sidecar(c) and self._proves(c))
        return replace(
            self.pod_at(template, index, declaration),
            beside=tuple(str(container.get("name", "")) for container in beside),
        )

    def pod_at(self, template: Template, index: int, declaration: Declared) -> Pod:
        """The template with the container at `index` as the one that serves."""
        container = template.body["spec"]["containers"][index]
        program = self._read(container, self._image_call(container, declaration))
        if template.ray and not container.get("command") and not container.get("args"):
            program = Program(inert=True)
        if template.preset == container.get("name") and not container.get("command"):
            program = Program()
        calls = tuple(self._with_file(call, template.body, container) for call in program.calls)
        return Pod(template, index, container, replace(program, calls=calls))

    def _with_file(
        self, call: EngineCall, template: Mapping[str, Any], container: Json
    ) -> EngineCall:
        """With what it reads of `--config FILE`."""
        path = config_file.path(call)
        if path is None:
            return call
        try:
            text = mounted.text(template, container, path, self.texts)
        except ValueError as hidden:
            return replace(call, config=ConfigFile(problem=f"cannot be read from here ({hidden})"))
        try:
            words = config_file.words(call, path, text)
        except ValueError as wrong:
            return replace(call, config=ConfigFile(problem=str(wrong)))
        return replace(call, config=ConfigFile(words))

    def _read(self, container: Json, call: command.ImageCall | None) -> Program:
        # The container is held by its template: its id stands for nothing else meanwhile.
        key = (id(container), call)
        if key not in self._programs:
            self._programs[key] = command.read(container, call)
        return self._programs[key]

    def _proves(self, container: Json) -> bool:
        known = identify.image_call(container, self.step_input.engine_images)
        return bool(self._read(container, known).calls)

    def _image_call(self, container: Json, declaration: Declared) -> command.ImageCall | None:
        """What the image starts by itself: by the table, or the engine that somebody declares."""
        known = identify.image_call(container, self.step_input.engine_images)
        engine = declaration.engine or declaration.default_engine
        if known is not None or not engine:
            return known
        return command.ImageCall(engine, ("the image's entrypoint",))

    def _named(self, spec: Mapping[str, Any]) -> str:
        """The Input's name for the container; its default gives way where no container has it."""
        if "container" in self.step_input.model_fields_set:
            return self.step_input.container
        names = [c.get("name") for c in spec.get("containers") or () if isinstance(c, dict)]
        return self.step_input.container if self.step_input.container in names else ""


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
