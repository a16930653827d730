"""One workload and one tier: wire it, or wire it again from its record.

Pure: documents in, new documents out. `wire()` asks the tier's backend what each engine gets and
applies it to every pod template of the engine, or refuses the whole workload; `replay()` applies a
record by the same code.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from function import command, flags, names, workloads
from function.api.base import present
from function.api.input import Input
from function.contract import gate
from function.contract.accelerators.kinds import Accelerator
from function.contract.accelerators.reading import of_pod
from function.contract.backend import AnyBackend, AnyTier
from function.contract.engine import ENGINES, Engine
from function.contract.injection import Injection
from function.flags import FlagPlan
from function.kube import objects, reading
from function.pods import other_injectors, patch, serve
from function.pods import record as records
from function.pods.asking import Asking, AskingEngine, Pod, Reading
from function.pods.declared import Declared
from function.pods.identify import Identified
from function.pods.identity import Identity, identity
from function.pods.patch.env import literals
from function.pods.record import Record, TemplateRecord
from function.problems import Refused
from function.reasons import Reason
from function.workloads import Gang, Template
from function.workloads.model import UNIFIED
from function.workloads.roles import phase_of_labels

Json = dict[str, Any]

FILES_VOLUME = "kv-offload-files"
LOAD_FAILURE = "kv_load_failure_policy"


@dataclass(frozen=True)
class Wired:
    """A wired workload: the manifest, its record, its engines, a sentence."""

    manifest: Json
    record: Record
    engines: tuple[Engine, ...]
    summary: str


def wire(asking: Asking, tier: AnyTier, backend: AnyBackend, files_name: str) -> Wired:
    """The workload wired to `tier`, all of its asking engines or none. Raises Refused.

    `backend`: the tier's. `files_name`: of the ConfigMap that holds the files of its pods.
    """
    outlives_pods = backend.describe(tier).outlives_pods
    manifest, templates, bodies, facts, wired, lines = asking.manifest, {}, {}, {}, [], []
    engines, skipped = _serving(asking)
    problems: list[Refused] = []
    for asking_engine in engines:
        try:
            made = _one(asking_engine, asking, tier, backend, files_name, outlives_pods)
        except Refused as refused:
            problems.append(refused)
            continue
        for pod, body in made.bodies:
            manifest = workloads.replace(manifest, pod.template, body)
            bodies[pod.template.path] = body
            templates[pod.template.path] = TemplateRecord(
                made.injection,
                pod.container.get("name", ""),
                files_name if made.injection.files else "",
            )
        facts[asking_engine.gang.name] = _facts(made.engine, made.identity)
        wired.append(made.engine)
        lines.append(_line(made.engine, made.identity, made.notes))
    if problems:
        raise Refused.all_of(problems)
    lines += [f"Left as it is: {_named(engine)}{engine.refused}." for engine in skipped]
    record = Record(
        state=records.WIRED,
        tier=str(asking.ref),
        backend=tier.spec.backend,
        policy=asking.policy,
        template=asking.digest,
        engines=facts,
        templates=templates,
        applied=records.digest(bodies),
    )
    records.dump(record)  # refuse now what could not be recorded
    summary = f"Wired to {tier.spec.backend} tier {asking.ref}: {' '.join(lines)}"
    return Wired(manifest, record, tuple(wired), summary)


def _of_a_pair(injection: Injection, engine: Engine) -> Injection:
    """What a decode engine may do when a transfer fails is its author's choice: with "recompute",
    which a cache wants, it would prefill without a word; vLLM's default fails the request."""
    if not flags.hands_over(engine.name, engine.flags):
        return injection
    options = {k: v for k, v in injection.connector_options.items() if k != LOAD_FAILURE}
    return replace(injection, connector_options=options)


def _of_a_user(injection: Injection, pods: Sequence[Pod]) -> tuple[Injection, tuple[str, ...]]:
    """A capability that is added to a container of another user than root has no effect, and a
    restricted namespace refuses it: there the node must allow what it stands for."""
    plain = all(
        patch.is_non_root(pod.template.body.get("spec") or {}, pod.container) for pod in pods
    )
    if not injection.capabilities or not plain:
        return injection, ()
    names_ = ", ".join(injection.capabilities)
    note = (
        f"the pods do not run as root, where {names_} has no effect: their nodes' container "
        "runtime must allow locked memory without a limit (memlock), or RDMA does not start"
    )
    return replace(injection, capabilities=()), (note,)


@dataclass(frozen=True)
class _Made:
    """What one engine gets: each pod's template, wired."""

    engine: Engine
    identity: Identity
    injection: Injection
    bodies: tuple[tuple[Pod, Json], ...]
    notes: tuple[str, ...]


def _serving(asking: Asking) -> tuple[list[AskingEngine], list[AskingEngine]]:
    """The engines of a workload, and what stands beside them and is none: a router, a picker.

    Raises Refused where nothing is an engine, or somebody else configures the pods' cache.
    """
    skipped = [engine for engine in asking.engines if engine.left_alone]
    engines = [engine for engine in asking.engines if not engine.left_alone]
    if skipped and not engines:
        raise Refused.all_of([present(engine.refused) for engine in skipped])
    for engine in engines:
        for template in engine.gang.templates:
            other_injectors.check(template.body, asking.manifest)
    return engines, skipped


def _named(engine: AskingEngine) -> str:
    return f"{engine.gang.name}: " if engine.gang.name else ""


def _one(
    asking_engine: AskingEngine,
    asking: Asking,
    tier: AnyTier,
    backend: AnyBackend,
    files_name: str,
    outlives_pods: bool,
) -> _Made:
    """One engine wired. Raises Refused with everything that stands in the way."""
    engine, cache_identity = _engine(asking_engine, asking, tier, backend, outlives_pods)
    problems = [
        Refused(Reason.ARGS_NOT_PATCHABLE, pod.program.problem, pod.template.path)
        for pod in asking_engine.pods
        if pod.program.problem
    ]
    try:
        verdict = gate.check(backend.gate(tier, engine))
        injection = backend.inject(tier, replace(engine, features=verdict.features))
        injection = _of_a_pair(injection, engine)
        injection, unlocked = _of_a_user(injection, asking_engine.pods)
    except Refused as refused:
        raise Refused.all_of([refused, *problems]) from None
    if problems:
        raise Refused.all_of(problems)
    if (injection.connector or injection.flags) and not asking_engine.calls:
        raise Refused(
            Reason.ARGS_NOT_PATCHABLE,
            "no command here starts an engine that can be seen, so that nothing could be given the "
            f"tier's connector; start it by a command line that shows it, or pass ${command.OPT_IN}"
            " to it in a script that does",
        )
    plans: list[FlagPlan] = []
    bodies = []
    for pod in asking_engine.pods:
        body, made = _apply(pod, engine, injection, files_name)
        plans += made
        bodies.append((pod, body))
    notes = (*verdict.warnings, *unlocked, *_notes(plans))
    return _Made(engine, cache_identity, injection, tuple(bodies), notes)


def replay(asking: Asking, record: Record, step_input: Input) -> Json:
    """The workload's manifest wired as recorded. Raises Refused where the pod has outgrown it."""
    read = {
        pod.template.path: (pod, engine.identified)
        for engine in asking.engines
        for pod in engine.pods
    }
    manifest, missing = asking.manifest, set(record.templates)
    for gang in asking.workload.engines:
        recorded = _recorded_engine(record, gang)
        for template in gang.templates:
            kept = record.templates.get(template.path)
            if kept is None:
                continue
            pod, identified = read.get(template.path, (None, None))
            if pod is None or not _as_recorded(pod, identified, kept, recorded):
                pod = _recorded(template, kept, recorded, gang, step_input)
            engine = Engine(
                name=_known(recorded.get("engine", "")),
                version=recorded.get("version") or None,
                env=literals(pod.container),
                more_env=_more_env(pod, asking.manifest),
                pods=gang.pods,
                phase=template.phase,
            )
            body, _ = _apply(pod, engine, kept.injection, kept.files_name)
            manifest = workloads.replace(manifest, template, body)
            missing.discard(template.path)
    if missing:
        raise Refused(Reason.POD_CONFLICT, "there is no pod template here", min(missing))
    return manifest


def again(asking: Asking, record: Record, wired: Wired, step_input: Input) -> Wired | None:
    """A changed template under the wiring that it had; None where its engines are not the same.

    `wired`: as it would be wired anew. Raises Refused where the pod has outgrown the wiring.
    """
    if record.engines != wired.record.engines or set(record.templates) != set(
        wired.record.templates
    ):
        return None
    manifest = replay(asking, record, step_input)
    found = workloads.find(manifest)
    there = {t.path: t.body for t in found.templates} if found else {}
    bodies = {path: there[path] for path in record.templates if path in there}
    new = replace(record, template=asking.digest, applied=records.digest(bodies))
    return replace(wired, manifest=manifest, record=new)


def unwired(asking: Asking) -> Record:
    """The record of Optional's choice: unwired until the pod templates change."""
    return Record(
        state=records.UNWIRED,
        tier=str(asking.ref),
        policy=asking.policy,
        template=asking.digest,
    )


def kept(asking: Asking, record: Record, observed: Json) -> Json | None:
    """The workload with its pod templates as they run; None where they are not what we wrote.

    Anyone who may write the observed resource may write anything there: nothing of it is taken but
    templates whose digest the record has. All else is as the earlier step desires it now. Bare
    workloads have the API server's defaults in them, and are never provably ours.
    """
    running = objects.unwrapped(observed)
    if running is None or not record.applied:
        return None
    try:
        ours = asking.workload.templates or _templates(asking.manifest)
        workload = workloads.find(running)
        there = {t.path: t.body for t in workload.templates} if workload else {}
        bodies = {path: there[path] for path in record.templates if path in there}
        if records.digest(bodies) != record.applied:
            return None
        manifest = asking.manifest
        for template in ours:
            if template.path in bodies:
                manifest = workloads.replace(manifest, template, dict(bodies.pop(template.path)))
        return None if bodies else manifest
    except Refused:
        return None


def _templates(manifest: Json) -> tuple[Template, ...]:
    workload = workloads.find(manifest)
    return workload.templates if workload else ()


def put_back(asking: Asking, manifest: Json, record: Record | None) -> Json:
    """The desired resource with the workload replaced and the record on it, all else as it was."""
    resource = manifest
    if asking.manifest is not asking.resource:
        resource = objects.rewrapped(asking.resource, manifest)
    if record is None:
        return resource
    metadata = resource.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), names.RECORD: records.dump(record)}
    return {**resource, "metadata": {**metadata, "annotations": annotations}}


def _apply(
    pod: Pod, engine: Engine, injection: Injection, files_name: str
) -> tuple[Json, list[FlagPlan]]:
    """One pod template wired: argv where it starts an engine, the pod's rest always."""
    template, program = pod.template, pod.program
    if template.kind == workloads.SERVE:
        plans = [flags.plan(call, engine, injection) for call in pod.calls]
        return serve.apply(template.body, injection), plans
    if program.problem:
        raise Refused(Reason.ARGS_NOT_PATCHABLE, program.problem, template.path)
    plans = [flags.plan(call, engine, injection) for call in pod.calls]
    edits = {i: edits for i, plan in enumerate(plans) if (edits := plan.edits())}
    opted_in = {plan.opt_in() for plan in plans if plan.call.opted_in}
    if len(opted_in) > 1:
        raise Refused(
            Reason.ARGS_NOT_PATCHABLE,
            f"its engine calls need different ${command.OPT_IN}; start one engine per container",
            template.path,
        )
    for value in opted_in:
        variable = {"name": command.OPT_IN, "value": value}
        injection = replace(injection, env=(*injection.env, variable))
    volume = {"name": FILES_VOLUME, "configMap": {"name": files_name}} if injection.files else None
    changes = command.rewrite(program, edits)
    body = patch.apply(
        dict(template.body), pod.index, injection, command_changes=changes, files_volume=volume
    )
    return body, plans


def _recorded_engine(record: Record, gang: Gang) -> Mapping[str, str]:
    """What the record says of a gang; its only engine where the gang has another name by now."""
    found = record.engines.get(gang.name)
    return found or (next(iter(record.engines.values())) if len(record.engines) == 1 else {})


def _as_recorded(
    pod: Pod, identified: Identified | None, kept: TemplateRecord, recorded: Mapping[str, str]
) -> bool:
    """Whether a template reads today as it did when it was wired: what was declared then of the
    engine or the container may be gone from the composite or from the step's Input."""
    return (
        identified is not None
        and identified.name == recorded.get("engine")
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
) -> Pod:
    """A template that was wired before, by what the record says of it."""
    if template.problem:
        raise Refused(Reason.POD_CONFLICT, template.problem)
    if template.kind == workloads.SERVE:
        return Pod(template, -1, {}, serve.program(template.body))
    there = [c.get("name", "") for c in template.body["spec"]["containers"]]
    if kept.container not in there:
        raise Refused(
            Reason.ENGINE_CONTAINER_MISSING,
            f"the container {kept.container!r} that was wired is gone",
            template.path,
        )
    declaration = Declared(engine=recorded.get("engine", ""))
    return Reading(gang, step_input).pod_at(template, there.index(kept.container), declaration)


def _engine(
    asking_engine: AskingEngine,
    asking: Asking,
    tier: AnyTier,
    backend: AnyBackend,
    outlives_pods: bool,
) -> tuple[Engine, Identity]:
    """The facts of one engine, from all of its pods. Raises Refused as its reading did."""
    if asking_engine.refused is not None:
        raise asking_engine.refused
    identified, first = present(asking_engine.identified), asking_engine.starting[0]
    cache_identity = identity(
        first.template.body,
        first.container,
        engine=identified.name,
        flags=asking_engine.flags,
        namespace=asking.remote_namespace,
        version=identified.own_version,
        outlives_pods=outlives_pods,
        model_source=asking.workload.model_source,
        declared=asking_engine.declared.cache_identity,
        assumed=backend.assumes(tier, identified.name),
    )
    engine = Engine(
        name=identified.name,
        version=identified.version,
        name_source=identified.name_source,
        version_source=identified.version_source,
        image=identified.image,
        flags=asking_engine.flags,
        env=literals(first.container),
        more_env=_more_env(first, asking.manifest),
        pods=asking_engine.gang.pods,
        namespace=asking.remote_namespace,
        phase=_phase(identified.name, asking_engine.flags, first.template),
        model=cache_identity.model,
        identity=cache_identity.digest if cache_identity.known else "",
        packages=identified.packages,
        families=asking_engine.declared.families,
        accelerator=_accelerator(asking_engine),
    )
    return engine, cache_identity


def _phase(engine_name: str, own: Mapping[str, str | None], template: Template) -> str:
    """What its author chose counts before its place in the workload, and that before a label."""
    told = (flags.phase(engine_name, own), template.phase, phase_of_labels(template.body))
    return next((phase for phase in told if phase not in ("", UNIFIED)), UNIFIED)


def _more_env(pod: Pod, manifest: Json) -> bool:
    """Whether the container has variables that its template does not show by name: `envFrom`, or
    configurations that KServe merges into an LLMInferenceService."""
    return bool(pod.container.get("envFrom") or reading.at(manifest, "spec", "baseRefs"))


def _accelerator(asking_engine: AskingEngine) -> Accelerator:
    """What its pods run on, by the first that tells."""
    told = (
        of_pod(pod.template.body.get("spec") or {}, pod.container) for pod in asking_engine.starting
    )
    return next((each for each in told if each.name), Accelerator())


def _facts(engine: Engine, cache_identity: Identity) -> dict[str, str]:
    facts = {
        "engine": engine.name,
        "engineSource": engine.name_source,
        "version": engine.version or "",
        "versionSource": engine.version_source,
        "model": cache_identity.model,
        "identity": cache_identity.digest if cache_identity.known else "",
    }
    return {name: value for name, value in facts.items() if value}


def _notes(plans: Iterable[FlagPlan]) -> list[str]:
    """What a person should know of the flags as they are now, each once."""
    return list(dict.fromkeys(note for plan in plans for note in plan.notes))


def _line(engine: Engine, cache_identity: Identity, warnings: tuple[str, ...]) -> str:
    version = f"{engine.version} ({engine.version_source})" if engine.version else "(any version)"
    said = (
        f"cache identity {cache_identity.digest}"
        if cache_identity.known
        else f"identity unknown: {cache_identity.unknown}"
    )
    notes = "".join(f" Note: {warning}." for warning in warnings)
    return f"{engine.name} {version}, known by {engine.name_source}, {said}.{notes}"
