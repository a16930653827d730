"""The engine that a backend judges: what its pods say, and what depends on the tier."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from function.api.base import present
from function.contract.accelerators.detect import of_pod
from function.contract.accelerators.kinds import CUDA, NAMES, Accelerator
from function.contract.backend import AnyBackend, AnyTier
from function.contract.engine import Engine
from function.engines.registry import kind
from function.kube import access
from function.pods import events
from function.pods.gang import EngineRequest, Pod
from function.pods.identity import Identity, identity
from function.pods.offload_request import OffloadRequest
from function.pods.patch.env import literals
from function.workloads import Template
from function.workloads.model import UNIFIED
from function.workloads.roles import phase_by_label

Json = dict[str, Any]


def engine_of(
    engine_request: EngineRequest,
    request: OffloadRequest,
    tier: AnyTier,
    backend: AnyBackend,
    outlives_pods: bool,
    consumer_namespace: str,
) -> tuple[Engine, Identity]:
    """Return the engine that a backend judges, and its cache identity. Raise Refused if unreadable.

    `consumer_namespace`: of the composite on the control plane, not of its pods.
    """
    if engine_request.refused is not None:
        raise engine_request.refused
    engine, first = present(engine_request.engine), engine_request.starting[0]
    tenant = backend.tenant(tier, consumer_namespace)
    cache_identity = identity(
        first.template.body,
        first.container,
        engine=engine.name,
        flags=engine.flags,
        namespace=request.remote_namespace,
        version=engine.own_version,
        outlives_pods=outlives_pods,
        model_source=request.workload.model_source,
        declared=engine_request.declared.cache_identity,
        tenant=tenant,
        assumed={**backend.assumes(tier, engine.name), **events.assumes(tier, engine.name)},
    )
    engine = replace(
        engine,
        env=literals(first.container),
        more_env=more_env(first, request.manifest),
        # A StatefulSet may be one engine over several nodes.
        pods=max(engine_request.gang.pods, engine.number(kind(engine.name).ranks.nodes)),
        namespace=request.remote_namespace,
        phase=_phase(engine, first.template),
        model=cache_identity.model,
        identity=cache_identity.digest if cache_identity.known else "",
        tenant=tenant,
        families=engine_request.declared.families,
        accelerator=_accelerator(engine_request, request),
        connectors=kind(engine.name).connectors(engine.flags),
    )
    return engine, cache_identity


def more_env(pod: Pod, manifest: Json) -> bool:
    """Return whether the container may have variables that its template does not name.

    `envFrom` brings them, and KServe, which merges configurations into an LLMInferenceService.
    """
    merged = manifest.get("kind") == "LLMInferenceServiceConfig"
    return bool(merged or pod.container.get("envFrom") or access.at(manifest, "spec", "baseRefs"))


def _phase(engine: Engine, template: Template) -> str:
    """Return the phase by the engine's flags, else its place in the workload, else a label."""
    by_flags = kind(engine.name).phase(engine.flags)
    phases = (by_flags, template.phase, phase_by_label(template.body))
    return next((phase for phase in phases if phase not in ("", UNIFIED)), UNIFIED)


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
    return Accelerator()
