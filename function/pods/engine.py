"""The engine that a backend judges: what its pods say, and what depends on the tier."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from packaging.version import Version

from function.api.base import present
from function.api.packages import PACKAGES
from function.command.model import EngineCall, Word, in_order
from function.contract.accelerators.detect import is_arm64, of_pod
from function.contract.accelerators.kinds import CUDA, NAMES, NOT_SHOWN, Accelerator
from function.contract.accelerators.serving import Served
from function.contract.backend import AnyBackend, AnyTier, Description
from function.contract.engine import Engine
from function.contract.packages import Fact, absent
from function.engines import ray_serve
from function.engines.plan import hidden_flags
from function.engines.registry import kind
from function.kube import access
from function.kube.access import Json
from function.pods import events
from function.pods.gang import EngineRequest, Pod
from function.pods.identity import Identity, Surroundings, identity, model_string
from function.pods.offload_request import OffloadRequest
from function.pods.patch.env import literals
from function.pods.patch.security import is_root
from function.problems import Refused
from function.reasons import Reason
from function.workloads import containers
from function.workloads.model import DECODE, SERVE, UNIFIED, Template
from function.workloads.roles import ROLE_LABEL, phase_by_label

# Different starts of one script that are compared.
_MOST_STARTS = 16


def engine_of(
    engine_request: EngineRequest,
    request: OffloadRequest,
    tier: AnyTier,
    backend: AnyBackend,
    described: Description,
    consumer_namespace: str,
) -> tuple[Engine, Identity]:
    """Return the engine that a backend judges, and its cache identity. Raise Refused if unreadable.

    `described`: the tier, by its backend. `consumer_namespace`: of the composite on the control
    plane, not of its pods.
    """
    if engine_request.refused is not None:
        raise _out_of_scope(engine_request, backend) or engine_request.refused
    engine, starting = present(engine_request.engine), engine_request.starting
    first = starting[0]
    env, more = literals(first.container), more_env(first, request.manifest)
    tenant = backend.tenant(tier, consumer_namespace)
    declared, cluster = engine_request.declared.cache_identity, tier.spec.inference_cluster_ref
    if declared and not tier.spec.share_declared_identities:
        # No namespace's name contains a slash or a colon.
        declared = f"{consumer_namespace or 'cluster:' + request.remote_namespace}/{declared}"
    own = kind(engine.name)
    connectors = own.connectors(engine.flags)
    judged = partial(
        identity,
        first.template.body,
        first.container or {"image": engine.image},  # Ray Serve's, in the cluster's pods
        engine=engine.name,
        version=engine.own_version,
        hidden=_hidden_flags(engine_request, env, more),
        unread=lambda: _unread(engine_request),
        declared=declared,
        around=Surroundings(
            namespace=request.remote_namespace,
            cluster=cluster.name if cluster and described.spans_clusters else "",
            store=described.store,
            outlives_pods=described.outlives_pods,
            model_source=request.workload.model_source,
            tenant=tenant,
            layouts=_layouts(engine.name, connectors, backend.allows.connectors),
            quarantine=_quarantine(tier, request, engine) if tier.quarantined else "",
            assumed={**backend.assumes(tier, engine.name), **events.assumes(tier, engine.name)},
        ),
    )
    cache_identity = judged(flags=engine.flags)
    if len(first.program.calls) > 1:
        cache_identity = _of_all_starts(cache_identity, first.program.calls, judged)
    phase, by_label = _phase(engine, first.template, described.pairs_phases, request)
    engine = replace(
        engine,
        packages=_on_its_architecture(engine.packages, first),
        env=env,
        more_env=more,
        # A StatefulSet may be one engine over several nodes.
        pods=max(engine_request.gang.pods, engine.number(own.ranks.nodes)),
        namespace=request.remote_namespace,
        phase=phase,
        phase_note=by_label,
        model=cache_identity.model,
        identity=cache_identity.digest if cache_identity.known else "",
        identity_unknown=cache_identity.unknown,
        identity_advice=cache_identity.advice,
        tenant=tenant,
        families=engine_request.declared.families,
        accelerator=_accelerator(engine_request, request),
        connectors=connectors,
        root=all(
            is_root(access.mapping(pod.template.body, "spec"), pod.container) for pod in starting
        ),
        needs_ray=any(t.ray or t.kind == SERVE for t in engine_request.gang.templates)
        or any(engine.flags.get(name) == "ray" for name in own.ranks.placed),
    )
    if any(t.ray for t in engine_request.gang.templates):
        gpus, copies = _gpus_of_a_pod(engine_request), _most_copies(engine_request)
        engine = replace(engine, pod_gpus=gpus, copies=copies)
    return engine, cache_identity


def _quarantine(tier: AnyTier, request: OffloadRequest, engine: Engine) -> str:
    """Return how often blocks of the engine's model were left behind, under all of its names."""
    served = (engine.flag("--served-model-name") or "").split()
    named = {model_string(engine.name, engine.flags), *served}
    place = request.remote_namespace
    number = sum(tier.quarantined.get((place, name), 0) for name in named)
    return str(number) if number else ""


def _of_all_starts(
    found: Identity, calls: Sequence[EngineCall], judged: Callable[..., Identity]
) -> Identity:
    """Return the identity, unknown where the starts of one script would have different ones.

    They are told apart when the script runs: by the GPU that it finds, say.
    """
    name = calls[0].engine
    read = (kind(name).read(call) for call in calls if call.engine == name)
    starts = list({str(flags): flags for flags in read}.values())
    first, differ = judged(flags=starts[0]), set[str]()
    for flags in starts[1:_MOST_STARTS]:
        other = judged(flags=flags)
        if found.known and not other.known:
            return replace(found, known=False, unknown=other.unknown, advice=other.advice)
        differ |= {fact for fact, _ in set(first.facts) ^ set(other.facts)}
    if any(call.engine != name for call in calls):
        differ.add("engine")
    if not differ and len(starts) <= _MOST_STARTS:
        return found
    which = f"which of more than {_MOST_STARTS} different starts of the script runs"
    if differ:
        which = f"which start of the script runs: they differ in {in_order(sorted(differ))}"
    texts = [which, *([found.unknown] if not found.known else [])]
    advice = (
        f"{found.advice} Start the engine in one place of the script, and give what differs by a "
        "variable of the container's env."
    )
    return replace(found, known=False, unknown=", ".join(texts), advice=advice)


def _gpus_of_a_pod(engine_request: EngineRequest) -> int:
    """Return the most GPUs of a pod that Ray fills with ranks; 0 where that is not known."""
    templates = engine_request.gang.templates
    if any(t.kind == SERVE and ray_serve.shares_gpus(t.body) for t in templates):
        return 0
    most = 0
    for template in (each for each in templates if each.ray):
        gpus = template.gpus
        if gpus is None:
            gpus = containers.gpus(template.body)
        if not gpus and (template.ranks or containers.asks_for_device(template.body)):
            return 0
        most = max(most, gpus)
    return most


def _most_copies(engine_request: EngineRequest) -> int | None:
    served = [t for t in engine_request.gang.templates if t.kind == SERVE]
    return ray_serve.most_copies(served[0].body) if served else 1


def _out_of_scope(engine_request: EngineRequest, backend: AnyBackend) -> Refused | None:
    """Return the refusal for an accelerator that the backend serves with no engine.

    It comes before the question which engine this is: an answer would help nobody.
    """
    rows = backend.rows.accelerators
    for template in engine_request.gang.templates:
        spec = access.mapping(template.body, "spec")
        for container in access.objects(spec, "containers"):
            name = (found := of_pod(spec, container)).name
            if rows and name and all(r.accelerator != name or r.served is Served.NO for r in rows):
                where = f"{NAMES[name]} ({found.because})"
                message = f"{backend.name} serves no engine on {where}; this pod is left alone"
                return Refused(Reason.OUT_OF_SCOPE, message)
    return None


def _on_its_architecture(packages: Mapping[str, Fact], pod: Pod) -> Mapping[str, Fact]:
    """Return what the image holds on the pod's nodes: images for arm64 lack older packages."""
    shown = is_arm64(access.mapping(pod.template.body, "spec"), pod.container)
    found = dict(packages)
    for name, since in ((row.name, row.arm64_since) for row in PACKAGES.values() if shown):
        fact = packages.get(name)
        held = fact.versions if fact and since and not fact.declared else None
        if held and all(Version(version) < Version(since) for version in held):
            why = f"arm64 by {shown}; {name} has no wheel for it before {since}"
            found[name] = replace(absent(why), declared=True)
    return found


def _hidden_flags(
    engine_request: EngineRequest, env: Mapping[str, str | None], more: bool
) -> list[str]:
    """Return the words beside the opt-in variable that may hold any flag, each once.

    Where a script has not opted in, such a word is refused (`plan.guard`).
    """
    found = (
        text
        for call in engine_request.calls
        if call.opted_in and any(word.value is None for word in call.words)
        for text in hidden_flags(call, kind(call.engine).loose(call), env, more)
    )
    return list(dict.fromkeys(found))


def _unread(engine_request: EngineRequest) -> dict[str, Word]:
    """Return the words that are not known, by the flag whose value they hold or by their text."""
    found: dict[str, Word] = {}
    for call in engine_request.calls[:1]:
        flag_name = kind(call.engine).flag_name
        last = kind(call.engine).model_flag if call.positional_model else ""
        for word in call.words:
            flag, same, _ = (word.prefix if word.value is None else word.value).partition("=")
            is_flag = flag.startswith("-")
            if word.value is None:
                key = flag_name(flag.replace("_", "-")) if is_flag and same else last
                found[key or word.text] = word
            last = flag_name(flag.replace("_", "-")) if is_flag and not same else ""
    return found


def _layouts(engine: str, own: frozenset[str], tiers: frozenset[str]) -> frozenset[str]:
    """Return the layouts that the pod's connectors ask for, where the tier's asks for none."""
    layouts = kind(engine).layouts
    return frozenset() if layouts(tiers) else layouts(own - tiers)


def more_env(pod: Pod, manifest: Json) -> bool:
    """Return whether the container may have variables that its template does not name.

    `envFrom` brings them, and KServe, which merges configurations into an LLMInferenceService.
    """
    merged = manifest.get("kind") == "LLMInferenceServiceConfig"
    return bool(merged or pod.container.get("envFrom") or access.at(manifest, "spec", "baseRefs"))


def _phase(
    engine: Engine, template: Template, pairs_phases: bool, request: OffloadRequest
) -> tuple[str, str]:
    """Return the phase by flags, else by the place in the workload, else by a label, and a note.

    llm-d's charts label engines that do both phases, too: a label counts only where the tier moves
    blocks from prefill to decode, or the engine's own connector does and prefill pods are composed
    with it. An engine that takes itself for a decode half writes nothing to a pool.
    """
    own, labelled = kind(engine.name), phase_by_label(template.body)
    known = next(
        (p for p in (own.phase(engine.flags), template.phase) if p not in ("", UNIFIED)), ""
    )
    if known or labelled == UNIFIED:
        return known or UNIFIED, ""
    label = f"the label {ROLE_LABEL}"
    if pairs_phases:
        return labelled, f"{labelled.lower()} by {label}"
    if not own.transfers(engine.flags):
        return UNIFIED, ""
    if labelled == DECODE and not request.siblings.has_prefill:
        return UNIFIED, (
            f"{label} is decode, and no prefill pods are composed with it: it both reads and "
            "writes, as an engine that computes prompts itself"
        )
    return labelled, f"{labelled.lower()} by {label}"


def _device(engine_request: EngineRequest) -> str:
    """Return the value of `--device`, also where the engine no longer has that flag."""
    for call in engine_request.calls:
        file = call.config.words if call.config else ()
        words = [*file, *(word.value or "" for word in call.words)]
        for word, after in pairwise([*words, ""]):
            if word == "--device" or word.startswith("--device="):
                return word.partition("=")[2] or after
    return ""


def _accelerator(engine_request: EngineRequest, request: OffloadRequest) -> Accelerator:
    """Return what its pods run on, by the first of them that tells."""
    device = _device(engine_request)
    if device in NAMES and device != CUDA:
        return Accelerator(device, "", f"--device {device}")
    for pod in engine_request.starting:
        spec = pod.template.body.get("spec") or {}
        classes = request.siblings.claims.of_container(
            request.remote_namespace, spec, pod.container
        )
        if (found := of_pod(spec, pod.container, classes)).name:
            return found
    return NOT_SHOWN
