"""The facts of one engine, from all of its pods."""

from collections.abc import Mapping
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
    """What a backend is told, and its cache identity. Raises Refused as its reading did.

    `consumer_namespace`: of the composite on the control plane, not of its pods.
    """
    if engine_request.refused is not None:
        raise engine_request.refused
    identified, first = present(engine_request.identified), engine_request.starting[0]
    tenant = backend.tenant(tier, consumer_namespace)
    cache_identity = identity(
        first.template.body,
        first.container,
        engine=identified.name,
        flags=engine_request.flags,
        namespace=request.remote_namespace,
        version=identified.own_version,
        outlives_pods=outlives_pods,
        model_source=request.workload.model_source,
        declared=engine_request.declared.cache_identity,
        tenant=tenant,
        assumed={
            **backend.assumes(tier, identified.name),
            **events.assumes(tier, identified.name),
        },
    )
    engine = Engine(
        name=identified.name,
        version=identified.version,
        name_source=identified.name_source,
        version_source=identified.version_source,
        image=identified.image,
        flags=engine_request.flags,
        env=literals(first.container),
        more_env=more_env(first, request.manifest),
        pods=max(engine_request.gang.pods, _nodes(engine_request)),
        namespace=request.remote_namespace,
        phase=_phase(identified.name, engine_request.flags, first.template),
        model=cache_identity.model,
        identity=cache_identity.digest if cache_identity.known else "",
        tenant=tenant,
        packages=identified.packages,
        families=engine_request.declared.families,
        accelerator=_accelerator(engine_request, request),
    )
    return engine, cache_identity


def more_env(pod: Pod, manifest: Json) -> bool:
    """Whether the container has variables that its template does not show by name: `envFrom`, or
    what KServe merges: configurations into an LLMInferenceService, and that into either."""
    merged = manifest.get("kind") == "LLMInferenceServiceConfig"
    return bool(merged or pod.container.get("envFrom") or access.at(manifest, "spec", "baseRefs"))


def _phase(engine_name: str, own: Mapping[str, str | None], template: Template) -> str:
    """What its author chose counts before its place in the workload, and that before a label."""
    told = (kind(engine_name).phase(own), template.phase, phase_by_label(template.body))
    return next((phase for phase in told if phase not in ("", UNIFIED)), UNIFIED)


def _nodes(engine_request: EngineRequest) -> int:
    """Over how many nodes its flags say that it runs: a StatefulSet may be one engine."""
    value = engine_request.flags.get("--nnodes") or ""
    return int(value) if value.isdecimal() and len(value) < 10 else 1


def _device(engine_request: EngineRequest) -> str:
    """What `--device` says; vLLM has the flag no more, and takes it for the beginning of another's
    name."""
    for call in engine_request.calls:
        file = call.config.words if call.config else ()
        words = [*file, *(word.value or "" for word in call.words)]
        for word, after in pairwise([*words, ""]):
            if word == "--device" or word.startswith("--device="):
                return word.partition("=")[2] or after
    return ""


def _accelerator(engine_request: EngineRequest, request: OffloadRequest) -> Accelerator:
    """What its pods run on, by the first that tells."""
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
