"""The facts of one engine, from all of its pods."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from function.api.base import present
from function.contract.accelerators.kinds import CUDA, NAMES, Accelerator
from function.contract.accelerators.reading import of_pod
from function.contract.backend import AnyBackend, AnyTier
from function.contract.engine import Engine
from function.engines.registry import kind
from function.kube import access
from function.pods import events
from function.pods.asking import Asking
from function.pods.gang import AskingEngine, Pod
from function.pods.identity import Identity, identity
from function.pods.patch.env import literals
from function.workloads import Template
from function.workloads.model import UNIFIED
from function.workloads.roles import phase_of_labels

Json = dict[str, Any]


def engine_of(
    asking_engine: AskingEngine,
    asking: Asking,
    tier: AnyTier,
    backend: AnyBackend,
    outlives_pods: bool,
    consumer_namespace: str,
) -> tuple[Engine, Identity]:
    """What a backend is told, and its cache identity. Raises Refused as its reading did.

    `consumer_namespace`: of the composite on the control plane, not of its pods.
    """
    if asking_engine.refused is not None:
        raise asking_engine.refused
    identified, first = present(asking_engine.identified), asking_engine.starting[0]
    tenant = backend.tenant(tier, consumer_namespace)
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
        flags=asking_engine.flags,
        env=literals(first.container),
        more_env=more_env(first, asking.manifest),
        pods=max(asking_engine.gang.pods, _nodes(asking_engine)),
        namespace=asking.remote_namespace,
        phase=_phase(identified.name, asking_engine.flags, first.template),
        model=cache_identity.model,
        identity=cache_identity.digest if cache_identity.known else "",
        tenant=tenant,
        packages=identified.packages,
        families=asking_engine.declared.families,
        accelerator=_accelerator(asking_engine, asking),
    )
    return engine, cache_identity


def more_env(pod: Pod, manifest: Json) -> bool:
    """Whether the container has variables that its template does not show by name: `envFrom`, or
    what KServe merges: configurations into an LLMInferenceService, and that into either."""
    merged = manifest.get("kind") == "LLMInferenceServiceConfig"
    return bool(merged or pod.container.get("envFrom") or access.at(manifest, "spec", "baseRefs"))


def _phase(engine_name: str, own: Mapping[str, str | None], template: Template) -> str:
    """What its author chose counts before its place in the workload, and that before a label."""
    told = (kind(engine_name).phase(own), template.phase, phase_of_labels(template.body))
    return next((phase for phase in told if phase not in ("", UNIFIED)), UNIFIED)


def _nodes(asking_engine: AskingEngine) -> int:
    """Over how many nodes its flags say that it runs: a StatefulSet may be one engine."""
    value = asking_engine.flags.get("--nnodes") or ""
    return int(value) if value.isdecimal() and len(value) < 10 else 1


def _device(asking_engine: AskingEngine) -> str:
    """What `--device` says; vLLM has the flag no more, and takes it for the beginning of another's
    name."""
    for call in asking_engine.calls:
        file = call.config.words if call.config else ()
        words = [*file, *(word.value or "" for word in call.words)]
        for word, after in pairwise([*words, ""]):
            if word == "--device" or word.startswith("--device="):
                return word.partition("=")[2] or after
    return ""


def _accelerator(asking_engine: AskingEngine, asking: Asking) -> Accelerator:
    """What its pods run on, by the first that tells."""
    device = _device(asking_engine)
    if device in NAMES and device != CUDA:
        return Accelerator(device, "", f"--device {device}")
    for pod in asking_engine.starting:
        spec = pod.template.body.get("spec") or {}
        classes = asking.beside.claims.of_container(asking.remote_namespace, spec, pod.container)
        if (found := of_pod(spec, pod.container, classes)).name:
            return found
    return Accelerator()
