"""Wire a workload again from its record, by the code that wired it."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from function import workloads
from function.api.engines import ENGINES
from function.api.input import Input
from function.contract.engine import Engine
from function.engines import ray_serve
from function.kube import access
from function.kube.access import Json
from function.pods import offload_request, templates
from function.pods import record as records
from function.pods.declared import Declared
from function.pods.engine import more_env
from function.pods.gang import GangReader, Pod
from function.pods.offload_request import OffloadRequest
from function.pods.patch.env import literals
from function.pods.record import Record, TemplateRecord
from function.pods.siblings import Texts
from function.pods.wire import Wired
from function.problems import Refused
from function.reasons import Reason
from function.workloads.model import SERVE, Gang, Template


def replay(request: OffloadRequest, record: Record, step_input: Input) -> Json:
    """Return the manifest wired as recorded. Raise Refused where the record no longer fits."""
    read = {
        pod.template.path: (pod, engine_request.engine)
        for engine_request in request.engines
        for pod in engine_request.pods
    }
    manifest, missing = request.manifest, set(record.templates)
    started = False
    for gang in request.workload.engines:
        recorded = _recorded_engine(record, gang)
        for template in gang.templates:
            kept = record.templates.get(template.path)
            if kept is None:
                continue
            pod, now = read.get(template.path, (None, None))
            if pod is None or not _as_recorded(pod, now, kept, recorded):
                pod = _recorded(template, kept, recorded, gang, step_input, request.texts)
            engine = Engine(
                name=_known(recorded.get("engine", "")),
                version=recorded.get("version") or None,
                env=literals(pod.container),
                more_env=more_env(pod, request.manifest),
                pods=gang.pods,
                phase=template.phase,
            )
            started = started or bool(pod.calls)
            body, _ = templates.apply(pod, engine, kept.injection, kept.files_name)
            manifest = workloads.replace(manifest, template, body)
            missing.discard(template.path)
    if missing:
        raise Refused(Reason.POD_CONFLICT, "there is no pod template here", min(missing))
    if lacks := _paths(request, record) - record.templates.keys():
        raise Refused(Reason.POD_CONFLICT, "the record has no wiring for it", min(lacks))
    if not started and record.sets_arguments:
        raise Refused(Reason.ARGS_NOT_PATCHABLE, "no command here starts an engine any more")
    return manifest


def carry_over(
    request: OffloadRequest, record: Record, wired: Wired, step_input: Input
) -> Wired | None:
    """Wire a changed template as it was wired before.

    `wired`: as it would be wired now. Return None where its engines are not the same, or the old
    wiring no longer fits the pod.
    """
    new = wired.record
    if record.engines != new.engines or record.templates.keys() != new.templates.keys():
        return None
    try:
        manifest = replay(request, record, step_input)
    except Refused:
        return None
    places = offload_request.paths(request.key, manifest, step_input)
    bodies = templates.found(manifest, record.templates, places)
    moved = replace(record, template=request.digest, applied=records.digest(bodies))
    return replace(wired, manifest=manifest, record=moved)


def is_same_workload(request: OffloadRequest, running: Json) -> bool:
    """Return whether the observed workload is of the desired one's kind and namespace.

    Names in pods, such as a Secret's, mean something else in another namespace. Core gives a bare
    workload the composite's, whatever is desired.
    """
    places = (("kind",), ("metadata", "namespace"))[: 1 if request.is_bare else 2]
    return all(access.at(running, *at) == access.at(request.manifest, *at) for at in places)


def with_running_templates(
    request: OffloadRequest,
    record: Record,
    running: Json,
    step_input: Input,
    is_wired: Callable[[], bool] = lambda: False,
) -> Json | None:
    """Return the manifest with the running pod templates; None where they are not wired by us.

    Anyone who may write the observed resource may write anything there: nothing of it is taken but
    templates whose digest the record has, or that run wired (`is_wired`); one that somebody took
    out of those is wired as recorded. All else is as the earlier step desires it now.
    """
    if not is_same_workload(request, running):
        return None
    try:
        places = offload_request.paths(request.key, request.manifest, step_input)
        ours = request.workload.templates or templates.of(request.manifest, places)
        bodies, is_applied = {}, False
        for paths in (record.templates, _paths(request, record)):
            bodies = templates.found(running, paths, places)
            if is_applied := records.digest(bodies) == record.applied:
                break
        if not bodies or not (is_applied or is_wired()):
            return None
        is_whole = is_applied or bodies.keys() >= record.templates.keys()
        manifest = request.manifest if is_whole else replay(request, record, step_input)
        for template in ours:
            if template.path in bodies:
                manifest = workloads.replace(manifest, template, dict(bodies.pop(template.path)))
        return None if bodies else manifest
    except Refused:
        return None


def _paths(request: OffloadRequest, record: Record) -> set[str]:
    """Return the templates of a record, and those of its engines that a damaged one lacks."""
    found = set(record.templates)
    for engine_request in request.engines:
        paths = {pod.template.path for pod in engine_request.pods}
        if engine_request.gang.name in record.engines or paths & found:
            found |= paths
    return found


def _recorded_engine(record: Record, gang: Gang) -> Mapping[str, str]:
    """Return the recorded facts of a gang; of the only engine where the gang was renamed."""
    found = record.engines.get(gang.name)
    return found or (next(iter(record.engines.values())) if len(record.engines) == 1 else {})


def _as_recorded(
    pod: Pod, engine: Engine | None, kept: TemplateRecord, recorded: Mapping[str, str]
) -> bool:
    """Return whether a template reads today as it did when it was wired.

    What was declared then of the engine or the container may be gone from the composite or from the
    step's Input.
    """
    return (
        engine is not None
        and engine.name == recorded.get("engine")
        and pod.container.get("name", "") == kept.container
        and not pod.program.problem
    )


def _known(engine: str) -> str:
    if engine not in ENGINES:
        raise Refused(
            Reason.ENGINE_UNKNOWN, f"the record names no engine that is known: {engine!r}"
        )
    return engine


def _recorded(
    template: Template,
    kept: TemplateRecord,
    recorded: Mapping[str, str],
    gang: Gang,
    step_input: Input,
    texts: Texts,
) -> Pod:
    """Read a template that was wired before, by its record."""
    if template.problem:
        raise Refused(Reason.POD_CONFLICT, template.problem)
    if template.kind == SERVE:
        return Pod(template, -1, {}, ray_serve.program(template.body))
    there = [c.get("name", "") for c in template.body["spec"]["containers"]]
    if kept.container not in there:
        raise Refused(
            Reason.ENGINE_CONTAINER_MISSING,
            f"the container {kept.container!r} that was wired is gone",
            template.path,
        )
    declaration = Declared(engine=recorded.get("engine", ""))
    return GangReader(gang, step_input, texts).pod_at(
        template, there.index(kept.container), declaration
    )
