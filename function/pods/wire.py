"""One workload and one tier: what its backend gives each engine, in every pod template of it.

Pure: documents in, new documents out; the whole workload or nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from function import command, names, workloads
from function.api.base import present
from function.contract import gate, pairings, platforms
from function.contract.backend import AnyBackend, AnyTier, Description
from function.contract.engine import BY, Engine
from function.contract.injection import Injection, Json
from function.contract.versions import undeclared_versions
from function.engines import config_file
from function.engines.plan import FlagPlan
from function.engines.registry import kind
from function.kube import access, objects
from function.pods import (
    events,
    knative,
    next_problems,
    other_injectors,
    patch,
    ray_copies,
    tolerated,
)
from function.pods import record as records
from function.pods.engine import engine_of
from function.pods.gang import EngineRequest, Pod
from function.pods.identity import Identity
from function.pods.offload_request import OffloadRequest
from function.pods.patch.env import literals
from function.pods.record import Record, TemplateRecord
from function.pods.refs import Ref
from function.pods.templates import apply
from function.problems import Refused
from function.reasons import Reason
from function.redact import redacted
from function.workloads import containers
from function.workloads.model import DECODE, SERVE

LOAD_FAILURE = "kv_load_failure_policy"


@dataclass(frozen=True)
class Wired:
    """A wired workload: the manifest, its record, its engines, a sentence."""

    manifest: Json
    record: Record
    engines: tuple[Engine, ...]
    summary: str


def wire(
    request: OffloadRequest,
    tier: AnyTier,
    backend: AnyBackend,
    files_name: str,
    namespace: str = "",
    described: Description | None = None,
) -> Wired:
    """Wire all requesting engines of a workload to `tier`, or raise Refused.

    `backend`: the tier's. `files_name`: of the ConfigMap that holds the files of its pods.
    `namespace`: the consumer's own, on the control plane. `described`: the tier, by its backend.
    """
    described = described or backend.describe(tier)
    manifest, templates, written, facts, wired, lines = request.manifest, {}, [], {}, [], []
    engines, skipped = _serving(request)
    problems: list[Refused] = []
    left: list[_DecodeLeft] = []
    for engine_request in engines:
        try:
            made = _wire_engine(
                engine_request, request, tier, backend, files_name, described, namespace
            )
        except _DecodeLeft as decode:
            left.append(decode)
            continue
        except Refused as refused:
            problems.append(refused)
            continue
        for pod, body, injection in made.pods:
            manifest = workloads.replace(manifest, pod.template, body)
            written.append(pod.template)
            templates[pod.template.path] = TemplateRecord(
                injection,
                pod.container.get("name", ""),
                files_name if injection.files else "",
            )
        facts[engine_request.gang.name] = _recorded_facts(made.engine, made.identity)
        wired.append(made.engine)
        lines.append(f"{_engine_prefix(engine_request) if len(engines) > 1 else ''}{_line(made)}")
    if problems or not wired:
        raise Refused.all_of([*problems, *(decode.refused for decode in left)])
    lines += [f"Left as it is: {_engine_prefix(engine)}{engine.refused}." for engine in skipped]
    lines += [f"Left as it is: {decode}" for decode in left]
    record = Record(
        state=records.WIRED,
        tier=str(request.ref),
        child=tier.name if _needs_name(tier, request.ref, templates) else "",
        backend=tier.spec.backend,
        policy=request.policy,
        template=request.digest,
        engines=facts,
        templates=templates,
        applied=records.digest({it.path: workloads.read(manifest, it) for it in written}),
    )
    _ = record.text  # refuse now what could not be recorded
    summary = f"Wired to {tier.spec.backend} tier {request.ref}: {' '.join(lines)}"
    return Wired(manifest, record, tuple(wired), summary)


def _needs_name(tier: AnyTier, ref: Ref | None, templates: Mapping[str, TemplateRecord]) -> bool:
    """Return whether neither the name that the pods ask for nor their label says which tier it is.

    A fleet's child has another name. Pods of a tier over another tier carry the other one's label.
    """
    elsewhere = records.wired_tiers(templates) - {None, tier.remote_name}
    return (ref is not None and tier.name != ref.name) or bool(elsewhere)


def _without_load_failure_policy(injection: Injection, engine: Engine) -> Injection:
    """Leave out the load failure policy for an engine that transfers blocks itself.

    What a decode engine does when a transfer fails is its author's choice: with "recompute", which
    a cache wants, it would prefill silently; vLLM's default fails the request.
    """
    if not kind(engine.name).transfers(engine.flags):
        return injection
    options = {k: v for k, v in injection.connector_options.items() if k != LOAD_FAILURE}
    return replace(injection, connector_options=options)


def _without_ineffective_capabilities(
    injection: Injection, pods: Sequence[Pod]
) -> tuple[Injection, tuple[str, ...]]:
    """Leave out capabilities for containers of another user than root, with a note.

    They have no effect there, and a restricted namespace refuses them: the node must allow what
    they stand for.
    """
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


def _is_spare(pod: Pod, pods: Sequence[Pod]) -> bool:
    """Return whether a Ray pod has no device where others do: Ray puts no rank there."""

    def devices(each: Pod) -> bool:
        template = each.template
        asks = template.kind != SERVE and containers.asks_for_device(template.body)
        return asks or template.ranks

    return not devices(pod) and any(map(devices, pods))


class _DecodeLeft(Exception):
    """Raised for a decode engine that the tier leaves alone; its prefill engine is wired."""

    def __init__(self, engine: EngineRequest, refused: Refused) -> None:
        super().__init__(f"{_engine_prefix(engine)}{refused}")
        self.refused = refused


@dataclass(frozen=True)
class _WiredEngine:
    """One engine's wiring: each pod with its template, wired, and what that was given."""

    engine: Engine
    identity: Identity
    pods: tuple[tuple[Pod, Json, Injection], ...]
    notes: tuple[str, ...]


def _serving(request: OffloadRequest) -> tuple[list[EngineRequest], list[EngineRequest]]:
    """Split a workload's containers into engines and others, such as a router or a picker.

    Raises Refused where nothing is an engine, or somebody else configures the pods' cache.
    """
    skipped: list[EngineRequest] = []
    engines: list[EngineRequest] = []
    for engine in request.engines:
        (skipped if engine.left_alone else engines).append(engine)
    if skipped and not engines:
        raise Refused.all_of([present(engine.refused) for engine in skipped])
    for engine in engines:
        for template in engine.gang.templates:
            other_injectors.check(template.body, request.manifest)
    return engines, skipped


def _expands(pods: Sequence[Pod]) -> bool:
    """Return whether Kubernetes expands `$(VAR)` in what starts the engine."""
    return all(pod.template.kind != SERVE for pod in pods)


def _engine_prefix(engine: EngineRequest) -> str:
    return f"{engine.gang.name}: " if engine.gang.name else ""


def _wire_engine(
    engine_request: EngineRequest,
    request: OffloadRequest,
    tier: AnyTier,
    backend: AnyBackend,
    files_name: str,
    described: Description,
    namespace: str,
) -> _WiredEngine:
    """Wire one engine.

    Raise Refused with every problem at once, and _DecodeLeft where the tier has nothing for the
    decode engine of a pair.
    """
    try:
        engine, cache_identity = engine_of(
            engine_request, request, tier, backend, described, namespace
        )
    except Refused as refused:
        if refused.reason is not Reason.ENGINE_UNKNOWN:
            raise
        more = next_problems.of_any_engine(
            engine_request,
            lambda guess: engine_of(guess, request, tier, backend, described, namespace)[0],
            tier,
            backend,
            files_name,
        )
        raise Refused.all_of([refused, *more]) from None
    pods = engine_request.pods
    problems = [
        Refused(Reason.ARGS_NOT_PATCHABLE, pod.program.problem, pod.template.path)
        for pod in pods
        if pod.program.problem
    ]
    problems += ray_copies.several_models(pods) if len(pods) > 1 else []
    problems += (_at_once(pod) for pod in pods if pod.program.at_once)
    problems += _unread_files(pods)
    seen = events.with_event_flags(tier, engine, backend.assumes(tier, engine.name))
    try:
        seen, payload, brought = _with_payload(seen, tier, backend)
        verdict = gate.check(backend.gate(tier, seen))
        injection = _injection(engine_request, seen, tier, backend, verdict.features)
        injection = replace(injection, payload=payload)
        injection, published = events.publish(
            tier,
            engine,
            injection,
            expands=_expands(pods),
            takes=lambda other: _takes(backend, tier, other, verdict.features),
        )
        injection = _without_load_failure_policy(injection, engine)
        if engine.copies != 1:
            ray_copies.check_ports(engine, injection)
        injection, unlocked = _without_ineffective_capabilities(injection, pods)
    except Refused as refused:
        later: list[Refused] = []
        if refused.reason is not Reason.OUT_OF_SCOPE and not problems:
            later = next_problems.of_engine(engine_request, seen, tier, backend, files_name)
        found = [*refused.parts, *problems, *later]
        if not engine_request.calls:
            # What no command shows cannot be written out before the command can be read.
            found = [p for p in found if p.reason is not Reason.CACHE_IDENTITY_CONFLICT]
            found += [] if problems else [_unseen(engine_request)]
        raise Refused.all_of(found) from None
    if problems:
        raise Refused.all_of(problems)
    if (injection.connector or injection.flags) and not engine_request.calls:
        raise _unseen(engine_request)
    plans: list[FlagPlan] = []
    bodies = []
    for pod in pods:
        own = injection
        if pod.template.ray and _is_spare(pod, pods):
            own = replace(injection, memory_bytes=0, storage_bytes=0, shm=None)
        try:
            body, made = apply(pod, engine, own, files_name)
        except Refused as refused:
            problems.append(next_problems.in_template(refused, pod, pods))
            continue
        plans += made
        bodies.append((pod, body, own))
    if problems:
        raise Refused.all_of(problems)
    notes = [
        *([seen.phase_note] if seen.phase_note else []),
        *dict.fromkeys(pod.template.note for pod in pods if pod.template.note),
        *verdict.warnings,
        *brought,
        *published,
        *unlocked,
        *_hidden_paths(pods, injection),
        *(ray_copies.unknown(engine, injection) if engine.copies is None else ()),
        *_unwired_containers(pods),
        *_unreached(pods),
        *_notes(plans),
    ]
    if request.manifest.get("kind") == knative.KIND:
        notes += dict.fromkeys(
            note
            for pod, body, _ in bodies
            for note in knative.notes(request.manifest, pod.template.body, body)
        )
    if described.colocated_with_engines:
        specs = [access.mapping(pod.template.body, "spec") for pod in pods]
        notes += tolerated.notes(specs, platforms.tolerations(tier.spec.nodes))
    return _WiredEngine(engine, cache_identity, tuple(bodies), tuple(notes))


def _unseen(engine_request: EngineRequest) -> Refused:
    by_kind = next((t.advice for t in engine_request.gang.templates if t.advice), "")
    way_out = by_kind or (
        f"start it by a command line that shows it, or pass ${command.OPT_IN} to it in a script "
        "that does"
    )
    return Refused(
        Reason.ARGS_NOT_PATCHABLE,
        "no command here starts an engine that can be seen, so that nothing could be given the "
        f"tier's connector; {way_out}",
    )


def _at_once(pod: Pod) -> Refused:
    """Return the refusal of several engines in one container: what it gets is for one."""
    container = f"container {pod.container.get('name', '')}"
    return Refused(
        Reason.ENGINE_UNSUPPORTED,
        f"the script of {container} starts several engines at once, {pod.program.at_once}. The "
        "tier's flags reach all of them, but the pod gets memory and ports for one. Give each "
        "engine a pod of its own; or start one with more data-parallel ranks; or, where one "
        "follows another, let the script wait for the first (wait $!)",
        pod.template.path,
    )


def _unread_files(pods: Sequence[Pod]) -> Iterator[Refused]:
    """Yield a refusal for each file of flags that cannot be read: it may hold any flag."""
    for call in dict.fromkeys(call for pod in pods for call in pod.calls):
        try:
            config_file.check(kind(call.engine).config, call)
        except Refused as refused:
            yield refused


def _with_payload(
    engine: Engine, tier: AnyTier, backend: AnyBackend
) -> tuple[Engine, Json | None, list[str]]:
    """Return the engine with the tier's payload, what its pods get of it, and notes."""
    image = tier.spec.payload
    if image is None:
        return engine, None, []
    seen, parts = pairings.with_payload(backend.gate(tier, engine).pairings, engine)
    notes = [
        f"the payload brings {each.package} {each.version} in place of the image's "
        f"{engine.package(each.package)}"
        for each in parts
    ]
    names_ = [each.name for each in parts]
    size = sum(each.mib for each in parts) * 2**20
    brings = {"image": image.reference, "names": names_, "bytes": size}
    return seen, brings if parts else None, notes


def _takes(backend: AnyBackend, tier: AnyTier, engine: Engine, features: frozenset[str]) -> bool:
    try:
        backend.inject(tier, replace(engine, features=features))
    except Refused:
        return False
    return True


def _injection(
    engine_request: EngineRequest,
    engine: Engine,
    tier: AnyTier,
    backend: AnyBackend,
    features: frozenset[str],
) -> Injection:
    """Return what the tier's backend gives the engine. Raise Refused or _DecodeLeft."""
    try:
        return backend.inject(tier, replace(engine, features=features))
    except Refused as refused:
        if refused.reason is Reason.OUT_OF_SCOPE and engine.phase == DECODE:
            raise _DecodeLeft(engine_request, refused) from None
        raise


def unwired(request: OffloadRequest) -> Record:
    """Return the record of Optional's choice: unwired until the pod templates change."""
    return Record(
        state=records.UNWIRED, tier=str(request.ref), policy=request.policy, template=request.digest
    )


def put_back(request: OffloadRequest, manifest: Json, record: Record | None) -> Json:
    """Return the desired resource with the workload replaced and the record on it."""
    resource = manifest
    if not request.is_bare:
        resource = objects.with_manifest(request.resource, manifest)
    if record is None:
        return resource
    annotations = {
        **access.mapping(resource, "metadata", "annotations"),
        names.ANNOTATION_RECORD: record.text,
    }
    metadata = {**access.mapping(resource, "metadata"), "annotations": annotations}
    return {**resource, "metadata": metadata}


def _recorded_facts(engine: Engine, cache_identity: Identity) -> dict[str, str]:
    facts = {
        "engine": engine.name,
        "engineSource": engine.name_source,
        "version": engine.version or "",
        "versionSource": engine.version_source,
        "model": redacted(cache_identity.model),
        "identity": cache_identity.digest if cache_identity.known else "",
    }
    return {name: value for name, value in facts.items() if value}


def _unwired_containers(pods: Iterable[Pod]) -> list[str]:
    """Return a note for each other engine in a wired pod: it stays unwired."""
    return list(
        dict.fromkeys(
            f"container {name} of the same pod starts an engine too, and stays as it is: one "
            "container of a pod is wired, so give each engine a pod of its own"
            for pod in pods
            for name in pod.other_engine_containers
        )
    )


def _unreached(pods: Iterable[Pod]) -> list[str]:
    """Return a note for each script that ends before its engine's line: that is wired in vain."""
    return list(
        dict.fromkeys(
            f"the script of container {pod.container.get('name', '')} ends at"
            f" {pod.program.ended_by!r}, and the engine's line behind it never runs: remove"
            " one of them"
            for pod in pods
            if pod.program.ended_by
        )
    )


def _hidden_paths(pods: Iterable[Pod], injection: Injection) -> list[str]:
    """Return a note for each variable of folders that may hide one of a source that is not seen."""
    found: dict[str, None] = {}
    for pod in pods:
        if not pod.container.get("envFrom"):
            continue
        lists = {*injection.search_paths, *(["PYTHONPATH"] if injection.payload else [])}
        for name in sorted(lists - literals(pod.container).keys()):
            found[
                f"envFrom brings what cannot be read here: if {name} is among it, write it into "
                "env, where the tier's folders are appended; else they replace it"
            ] = None
    return list(found)


def _notes(plans: Iterable[FlagPlan]) -> list[str]:
    """Return the notes on the flags that were set, each once."""
    return list(dict.fromkeys(note for plan in plans for note in plan.notes))


def _line(made: _WiredEngine) -> str:
    engine, cache_identity = made.engine, made.identity
    brought_by = next((by for pod, *_ in made.pods if (by := pod.template.command_by)), "")
    by_command = engine.name_source == "argv" and brought_by
    named = f"by {by_command or BY.get(engine.name_source, engine.name_source)}"
    versioned = f"by {BY.get(engine.version_source, engine.version_source)}"
    if not engine.version:
        # Where nothing tells it, a connector that all of these have is taken to be there.
        oldest = undeclared_versions(engine.name)[0]
        version = f"of unknown version (engine {named}; taken for {oldest} or newer)"
    elif named == versioned:
        version = f"{engine.version} ({named})"
    else:
        version = f"{engine.version} (engine {named}, version {versioned})"
    said = (
        f"cache identity {cache_identity.digest}"
        if cache_identity.known
        else f"identity unknown: {cache_identity.unknown}"
    )
    notes = "".join(f" Note: {warning}." for warning in made.notes)
    return f"{engine.name} {version}, {said}.{notes}"
