"""One workload and one tier: wire it, or wire it again from its record.

Pure: documents in, new documents out. `wire()` asks the tier's backend what each engine gets and
applies it to every pod template of the engine, or refuses the whole workload; `replay()` applies a
record by the same code.
"""

from dataclasses import dataclass, replace
from typing import Any

from function import command, flags, workloads
from function.api.input import Input
from function.backends.registry import backend
from function.contract import gate
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.kube import objects
from function.pods import identify, patch, serve
from function.pods import record as records
from function.pods.asking import Asking, Pod, Target, paths, pods
from function.pods.identity import Identity, identity, model_string
from function.pods.patch.env import literals
from function.pods.record import Record, TemplateRecord
from function.problems import Refused

Json = dict[str, Any]

FILES_VOLUME = "kv-offload-files"

# Reasons that leave a pod as its author wrote it, whatever the policy: it is not ours to wire.
LEFT_ALONE = frozenset({"OutOfScope"})


@dataclass(frozen=True)
class Wired:
    """A wired workload: the manifest, its record, (model, identity digest) pairs, a sentence."""

    manifest: Json
    record: Record
    shares: tuple[tuple[str, str], ...]
    summary: str


def wire(target: Target, tier: Tier, given: Input, files_name: str) -> Wired:
    """The target wired to `tier`, all of its asking engines or none. Raises Refused."""
    served_by = backend(tier.spec.backend)
    outlives_pods = served_by.describe(tier).outlives_pods
    manifest, templates, facts, shares, lines = target.manifest, {}, {}, [], []
    for asking in target.asking:
        members = pods(asking, given)
        engine, who = _engine(asking, members, given, target, outlives_pods)
        verdict = gate.check(*served_by.connector(tier, engine))
        injection = served_by.inject(tier, replace(engine, features=verdict.features))
        for member in members:
            body = _apply(member, engine, injection, files_name)
            manifest = workloads.replace(manifest, member.template.path, body)
            templates[member.template.path] = TemplateRecord(
                injection, member.container.get("name", ""), files_name if injection.files else ""
            )
        facts[asking.gang.name] = _facts(engine, who)
        shares.append((who.model, who.digest if who.known else ""))
        told = _notes(members, engine, injection)
        lines.append(_line(engine, who, (*verdict.warnings, *told)))
    record = Record(
        state=records.WIRED,
        tier=str(target.ref),
        backend=tier.spec.backend,
        policy=target.policy,
        template=target.digest,
        engines=facts,
        templates=templates,
    )
    records.dump(record)  # refuse now what could not be recorded
    summary = f"Wired to {tier.spec.backend} tier {target.ref}: {' '.join(lines)}"
    return Wired(manifest, record, tuple(shares), summary)


def models(target: Target, given: Input) -> tuple[str, ...]:
    """The model strings of the target's engines, sorted; () where an engine cannot be told."""
    found = set()
    try:
        for asking in target.asking:
            members = pods(asking, given)
            name = _identify(asking, members, given).name
            found.add(model_string(name, _flags(name, _starting(members))))
    except Refused:
        return ()
    return tuple(sorted(found))


def replay(target: Target, record: Record, given: Input) -> Json:
    """The target's manifest wired as recorded. Raises Refused where the pod has outgrown it."""
    workload = workloads.find(target.manifest, paths(target.key, target.manifest, given))
    manifest = target.manifest
    for gang in workload.engines if workload else ():
        members = [
            member
            for member in pods(Asking(gang, identify.Declared()), given)
            if member.template.path in record.templates
        ]
        recorded = record.engines.get(gang.name, {})
        for member in members:
            kept = record.templates[member.template.path]
            engine = Engine(
                name=recorded.get("engine", ""),
                version=recorded.get("version") or None,
                flags=_flags(recorded.get("engine", ""), [member]),
                pods=gang.pods,
                phase=member.template.phase,
            )
            body = _apply(member, engine, kept.injection, kept.files_name)
            manifest = workloads.replace(manifest, member.template.path, body)
    return manifest


def unwired(target: Target) -> Record:
    """The record of Optional's choice: unwired until the pod templates change."""
    return Record(
        state=records.UNWIRED,
        tier=str(target.ref),
        policy=target.policy,
        template=target.digest,
    )


def observed_manifest(target: Target, observed: Json) -> Json:
    """The workload as it was last applied: the manifest in the Object, or the bare resource."""
    if objects.is_object(target.resource):
        return objects.unwrapped(observed) or target.manifest
    kept = {k: v for k, v in observed.items() if k not in ("status", "metadata")}
    return {**kept, "metadata": target.manifest.get("metadata", {})}


def put_back(target: Target, manifest: Json, record: Record | None) -> Json:
    """The desired resource with the workload replaced and the record on it, all else as it was."""
    resource = manifest
    if target.manifest is not target.resource:
        resource = objects.rewrapped(target.resource, manifest)
    if record is None:
        return resource
    metadata = resource.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), records.ANNOTATION: records.dump(record)}
    return {**resource, "metadata": {**metadata, "annotations": annotations}}


def _apply(member: Pod, engine: Engine, injection: Injection, files_name: str) -> Json:
    """One pod template wired: argv where it starts an engine, the pod's rest always."""
    program = member.program
    if member.template.kind == workloads.SERVE:
        return serve.apply(member.template.body, injection)
    if program.problem:
        raise Refused("ArgsNotPatchable", program.problem, member.template.path)
    edits, opted_in = {}, []
    for i, call in enumerate(program.calls):
        edits[i] = flags.edits(call, engine, injection)
        if call.opted_in:
            opted_in.append(flags.opt_in_value(call, engine, injection))
    if len(set(opted_in)) > 1:
        raise Refused(
            "ArgsNotPatchable",
            f"its engine calls need different ${command.OPT_IN}; start one engine per container",
            member.template.path,
        )
    if opted_in:
        injection = replace(
            injection, env=(*injection.env, {"name": command.OPT_IN, "value": opted_in[0]})
        )
    volume = {"name": FILES_VOLUME, "configMap": {"name": files_name}} if injection.files else None
    changes = program.rewrite({i: e for i, e in edits.items() if e}) if any(edits.values()) else {}
    return patch.apply(
        dict(member.template.body),
        member.index,
        injection,
        command_changes=changes,
        files_volume=volume,
    )


def _engine(
    asking: Asking, members: list[Pod], given: Input, target: Target, outlives_pods: bool
) -> tuple[Engine, Identity]:
    """The facts of one engine, from all of its pods. Raises EngineUnknown, OutOfScope."""
    found = _identify(asking, members, given)
    starts = _starting(members)
    read = _flags(found.name, starts)
    who = identity(
        starts[0].template.body,
        starts[0].container,
        engine=found.name,
        flags=read,
        namespace=target.remote_namespace,
        version=found.version,
        outlives_pods=outlives_pods,
        model_source=workloads.model_source(target.manifest),
        declared=asking.declared.cache_identity,
    )
    engine = Engine(
        name=found.name,
        version=found.version,
        name_source=found.name_source,
        version_source=found.version_source,
        image=found.image,
        flags=read,
        env=literals(starts[0].container),
        pods=asking.gang.pods,
        phase=starts[0].template.phase,
        model=who.model,
        identity=who.digest if who.known else "",
    )
    return engine, who


def _identify(asking: Asking, members: list[Pod], given: Input) -> identify.Identified:
    return identify.identify(
        [(m.container, m.program) for m in members],
        asking.declared,
        given.engine_images,
        given.engine or "",
        given.engine_version or "",
    )


def _starting(members: list[Pod]) -> list[Pod]:
    """The pods that start the engine; all of them where argv shows none."""
    return [m for m in members if m.program.calls] or members


def _flags(engine: str, members: list[Pod]) -> dict[str, str | None]:
    """The effective flags of the first call that starts the engine; {} where none does."""
    for member in members:
        for call in member.program.calls:
            return flags.read(engine, call)
    return {}


def _facts(engine: Engine, who: Identity) -> dict[str, str]:
    facts = {
        "engine": engine.name,
        "engineSource": engine.name_source,
        "version": engine.version or "",
        "versionSource": engine.version_source,
        "model": who.model,
        "identity": who.digest if who.known else "",
    }
    return {name: value for name, value in facts.items() if value}


def _notes(members: list[Pod], engine: Engine, injection: Injection) -> list[str]:
    """What a person should know of the flags as they are now, each once."""
    calls = [call for member in members for call in member.program.calls]
    return list(dict.fromkeys(n for c in calls for n in flags.notes(c, engine, injection)))


def _line(engine: Engine, who: Identity, warnings: tuple[str, ...]) -> str:
    version = f"{engine.version} ({engine.version_source})" if engine.version else "(any version)"
    identity_ = f"cache identity {who.digest}" if who.known else f"identity unknown: {who.unknown}"
    notes = "".join(f" Note: {warning}." for warning in warnings)
    return f"{engine.name} {version}, known by {engine.name_source}, {identity_}.{notes}"
