"""One gang as an engine: its pods, each with the container that serves and what that runs.

Whatever is read of a pod here (its serving container, its argv, its flags) is kept, and nothing
later reads it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from function import command
from function.api.input import Input
from function.command import ConfigFile, EngineCall, Program
from function.contract.engine import Engine
from function.engines import config_file, ray_serve
from function.engines.registry import kind
from function.kube.access import Json
from function.pods import identify, mounted
from function.pods.declared import Declared
from function.pods.siblings import Texts
from function.problems import Refused
from function.reasons import Reason
from function.workloads import containers
from function.workloads.model import POD, SERVE, Gang, Template

_NOT_EDITED = "the script that starts it is a file of a ConfigMap, which wiring does not edit"
_RAY_START = "KUBERAY_GEN_RAY_START_CMD"
# Reasons that leave a pod as its author wrote it, whatever the policy: it is not ours to wire.
LEFT_ALONE = frozenset({Reason.OUT_OF_SCOPE})


@dataclass(frozen=True)
class Pod:
    """One template of an engine: a pod's serving container, or a Serve entry, and what it runs.

    `other_engine_containers`: names of the pod's other containers that start an engine. `started`:
    whether `container` holds what ConfigMaps bring into it, besides what its template says.
    """

    template: Template
    index: int
    container: Json
    program: Program
    other_engine_containers: tuple[str, ...] = ()
    started: bool = False

    @property
    def calls(self) -> tuple[EngineCall, ...]:
        return self.program.calls


@dataclass(frozen=True)
class EngineRequest:
    """One engine that asks for a tier: its templates, and what is known of it before the tier is.

    `engine`: what its pods say, with the effective flags of the first call that starts it.
    `refused`: why its pods cannot be read, or the engine not be told; the rest is then absent, but
    for `unidentified`: the pods of an engine that cannot be told.
    """

    gang: Gang
    declared: Declared
    pods: tuple[Pod, ...] = ()
    engine: Engine | None = None
    refused: Refused | None = field(default=None, compare=False)
    unidentified: tuple[Pod, ...] = field(default=(), compare=False)

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


class GangReader:
    """Reads the containers of one gang, each at most once for what its image is said to start.

    `texts`: of the ConfigMaps that its pods may mount.
    """

    def __init__(self, gang: Gang, step_input: Input, texts: Texts) -> None:
        self.gang = gang
        self.step_input = step_input
        self.texts = texts
        self._programs: dict[tuple[int, command.ImageCall | None], Program] = {}
        self._started: dict[int, Json] = {}
        self._ray_starts: dict[int, Json] = {}

    def engine(self, declaration: Declared) -> EngineRequest:
        """Return the gang as an engine that asks for a tier, refused where it cannot be read."""
        pods: tuple[Pod, ...] = ()
        try:
            pods = tuple(self._pod(template, declaration) for template in self.gang.templates)
            engine = identify.identify(
                [(pod.container, pod.program) for pod in pods],
                declaration,
                self.step_input.engine_images,
            )
        except Refused as refused:
            return EngineRequest(
                self.gang, declaration, refused=self._advised(refused), unidentified=pods
            )
        call = next((call for pod in pods for call in pod.calls), None)
        if call is not None:
            engine = replace(engine, flags=kind(engine.name).read(call))
        accepted = self.step_input.accepted_versions
        newest = next((row.newest for row in accepted if row.engine == engine.name), "")
        engine = replace(engine, newest=newest) if newest else engine
        return EngineRequest(self.gang, declaration, pods, engine)

    def _advised(self, refused: Refused) -> Refused:
        """Add advice for the gang's kind to a refusal of an unknown engine."""
        advice = next((t.advice for t in self.gang.templates if t.advice), "")
        if refused.reason is not Reason.ENGINE_UNKNOWN or not advice:
            return refused
        return Refused(refused.reason, f"{refused.message}; or {advice}", refused.path)

    def is_engine(self, declaration: Declared) -> bool:
        """Whether a gang that names no tier itself is an engine, by declaration, argv or image.

        One that cannot be read counts as an engine: it is refused with its problem, never dropped.
        """
        templates = self.gang.templates
        if declaration.engine or any(t.kind == SERVE or t.problem for t in templates):
            return True
        return any(
            self._proves(t.body, c)
            for t in templates
            if t.kind == POD
            for c in t.body.get("spec", {}).get("containers") or ()
            if isinstance(c, dict) and not containers.is_sidecar(c)
        )

    def _pod(self, template: Template, declaration: Declared) -> Pod:
        """Return a template with its serving container, read.

        Raise Refused: EngineContainerMissing, PodConflict for a malformed template.
        """
        if template.problem:
            raise Refused(Reason.POD_CONFLICT, template.problem)
        if template.kind == SERVE:
            return Pod(template, -1, {}, ray_serve.program(template.body))
        spec = template.body.get("spec", {})
        proves = partial(self._proves, template.body)
        index = containers.find_engine_container(spec, name=self._named(spec), proves=proves)
        others = [c for i, c in enumerate(spec["containers"]) if i != index]
        other_engine_containers = (c for c in others if not containers.is_sidecar(c) and proves(c))
        return replace(
            self.pod_at(template, index, declaration),
            other_engine_containers=tuple(
                str(container.get("name", "")) for container in other_engine_containers
            ),
        )

    def pod_at(self, template: Template, index: int, declaration: Declared) -> Pod:
        """Return the template with the container at `index` as the one that serves."""
        written = template.body["spec"]["containers"][index]
        container = self._seen(template.body, written) if self.texts else written
        started = self._with_ray_start(container) if template.ray else container
        program = self._read(started, self._image_call(container, declaration))
        if template.ray and not container.get("command") and not container.get("args"):
            program = Program(inert=True)
        if template.preset == container.get("name") and not container.get("command"):
            program = Program()
        calls = tuple(self._with_file(call, template.body, container) for call in program.calls)
        if container.get("command") != written.get("command"):
            calls = tuple(replace(call, closed=call.closed or _NOT_EDITED) for call in calls)
        program = replace(program, calls=calls)
        if program.problem and (why := mounted.why_unread(template.body, container, self.texts)):
            program = replace(program, problem=f"{program.problem} ({why})")
        return Pod(template, index, container, program, started=container is not written)

    def _with_ray_start(self, container: Json) -> Json:
        """Return the container with the variable that KubeRay sets: the command that starts Ray."""
        if _RAY_START not in str((container.get("command"), container.get("args"))):
            return container
        env = [*(container.get("env") or ()), {"name": _RAY_START, "value": "ray start"}]
        return self._ray_starts.setdefault(id(container), {**container, "env": env})

    def _with_file(
        self, call: EngineCall, template: Mapping[str, Any], container: Json
    ) -> EngineCall:
        """Return the call with what it reads of `--config FILE`."""
        path = config_file.path(call)
        if path is None:
            return call
        try:
            text = mounted.text(template, container, path, self.texts)
        except ValueError as hidden:
            return replace(call, config=ConfigFile(problem=f"cannot be read from here ({hidden})"))
        try:
            words = config_file.words(kind(call.engine).config, call, path, text)
        except ValueError as wrong:
            return replace(call, config=ConfigFile(problem=str(wrong)))
        return replace(call, config=ConfigFile(words))

    def _read(self, container: Json, call: command.ImageCall | None) -> Program:
        # The container is held by its template: its id stands for nothing else meanwhile.
        key = (id(container), call)
        if key not in self._programs:
            self._programs[key] = command.read(container, call)
        return self._programs[key]

    def _seen(self, template: Mapping[str, Any], container: Json) -> Json:
        if id(container) not in self._started:
            self._started[id(container)] = mounted.as_started(template, container, self.texts)
        return self._started[id(container)]

    def _proves(self, template: Mapping[str, Any], container: Json) -> bool:
        container = self._seen(template, container) if self.texts else container
        call = identify.image_call(container, self.step_input.engine_images)
        return bool(self._read(container, call).calls)

    def _image_call(self, container: Json, declaration: Declared) -> command.ImageCall | None:
        """Return what the image starts by itself: by its row, or the declared engine."""
        known = identify.image_call(container, self.step_input.engine_images)
        engine = declaration.engine or declaration.default_engine
        if known is not None or not engine:
            return known
        return command.ImageCall(engine, identify.OWN_ENTRYPOINT)

    def _named(self, spec: Mapping[str, Any]) -> str:
        """Return the Input's name for the container; "" if no container has its default."""
        if "container" in self.step_input.model_fields_set:
            return self.step_input.container
        names = [c.get("name") for c in spec.get("containers") or () if isinstance(c, dict)]
        return self.step_input.container if self.step_input.container in names else ""
