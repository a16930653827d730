"""The table of known workload kinds, and where their pod templates are.

Source: the types in the repositories of their groups, read in November 2026.
"""

from collections.abc import Iterable, Sequence

from function.kube.access import Json
from function.problems import Refused, field_path
from function.reasons import Reason
from function.workloads import fieldpaths, grove, kserve, ray, rbg
from function.workloads.fieldpaths import Steps
from function.workloads.model import (
    DECODE,
    LEADER,
    MEMBER,
    PREFILL,
    STANDALONE,
    UNIFIED,
    WORKER,
    Finder,
    Slot,
)
from function.workloads.roles import count, leader_and_workers, phase_by_name
from function.workloads.views import BarePodSpecView, ComponentView, TemplateView


def slots_of_kind(manifest: Json) -> list[Slot]:
    """Return the slots of a known kind without those of zero pods; else []."""
    finder = _KINDS.get(_kind(manifest))
    return [slot for slot in finder(manifest) if slot.pods] if finder else []


def is_known(api_version: object, kind: object) -> bool:
    """Return whether a kind is in the table."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return False
    return _kind({"apiVersion": api_version, "kind": kind}) in _KINDS


def slots_at_paths(manifest: Json, paths: Sequence[str]) -> list[Slot]:
    """Return the slots at field paths that a user configured, each its own gang."""
    slots = []
    for path in paths:
        try:
            steps = fieldpaths.parse(path)
        except ValueError as e:
            raise Refused(Reason.POD_CONFLICT, str(e), path) from None
        for at in fieldpaths.expand(manifest, steps):
            node = fieldpaths.get(manifest, at)
            bare = isinstance(node, dict) and "containers" in node
            view = BarePodSpecView(at) if bare else TemplateView(at)
            where = field_path(at)
            slots.append(Slot(where, view, phase=_phase_at(manifest, at), gang=where))
    return slots


def _phase_at(manifest: Json, steps: Steps) -> str:
    """Return the phase by the name of the nearest list item above a template."""
    for i in range(len(steps), 0, -1):
        if isinstance(steps[i - 1], int):
            node = fieldpaths.get(manifest, steps[:i])
            return phase_by_name(node.get("name")) if isinstance(node, dict) else UNIFIED
    return UNIFIED


def _single(*steps: str) -> Finder:
    path = ".".join(steps) or "metadata"
    return lambda manifest: [Slot(path, TemplateView(steps))]


def _predictor(manifest: Json) -> Iterable[Slot]:
    at: Steps = ("spec", "predictor")
    if not fieldpaths.get(manifest, (*at, "workerSpec")):
        yield Slot("spec.predictor", ComponentView(at, at))


def _leader_worker_set(manifest: Json) -> Iterable[Slot]:
    at: Steps = ("spec", "leaderWorkerTemplate")
    leader, worker = TemplateView((*at, "leaderTemplate")), TemplateView((*at, "workerTemplate"))
    size = count(fieldpaths.get(manifest, (*at, "size")))
    if leader.read(manifest) is None:
        # The leader is made from the worker template too.
        yield Slot("spec.leaderWorkerTemplate.workerTemplate", worker, MEMBER, size)
        return
    yield Slot("spec.leaderWorkerTemplate.leaderTemplate", leader, LEADER)
    yield Slot("spec.leaderWorkerTemplate.workerTemplate", worker, WORKER, size - 1)


def _model_serving(manifest: Json) -> Iterable[Slot]:
    at: Steps = ("spec", "template", "roles")
    for i, role in fieldpaths.objects(manifest, at):
        here = (*at, i)
        where = field_path(here)
        yield from leader_and_workers(
            Slot(f"{where}.entryTemplate", TemplateView((*here, "entryTemplate"))),
            Slot(f"{where}.workerTemplate", TemplateView((*here, "workerTemplate"))),
            count(role.get("workerReplicas"), default=0),
            phase_by_name(role.get("name")),
            str(role.get("name", i)),
        )


def _role_set(*at: str) -> Finder:
    def finder(manifest: Json) -> Iterable[Slot]:
        for i, role in fieldpaths.objects(manifest, at):
            here: Steps = (*at, i, "template")
            size = count(role.get("podGroupSize"))
            name = str(role.get("name", i))
            yield Slot(
                field_path(here),
                TemplateView(here),
                MEMBER if size > 1 else STANDALONE,
                size,
                phase_by_name(name),
                name,
            )

    return finder


def _ome(engine: str, decoder: str) -> Finder:
    def finder(manifest: Json) -> Iterable[Slot]:
        disaggregated = fieldpaths.get(manifest, ("spec", decoder)) is not None
        for key, phase in ((engine, PREFILL if disaggregated else UNIFIED), (decoder, DECODE)):
            at: Steps = ("spec", key)
            component = fieldpaths.get(manifest, at)
            if not isinstance(component, dict):
                continue
            name = key if disaggregated else ""
            if component.get("leader") or component.get("worker"):
                workers = count(fieldpaths.get(component, ("worker", "size")))
                yield from leader_and_workers(
                    Slot(f"spec.{key}.leader", ComponentView((*at, "leader"), at)),
                    Slot(f"spec.{key}.worker", ComponentView((*at, "worker"), at)),
                    workers,
                    phase,
                    name,
                )
            else:
                yield Slot(f"spec.{key}", ComponentView(at, at), phase=phase, gang=name)

    return finder


_APPS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")
_KINDS: dict[tuple[str, str], Finder] = {
    ("", "Pod"): _single(),
    ("", "ReplicationController"): _single("spec", "template"),
    **dict.fromkeys((("apps", kind) for kind in _APPS), _single("spec", "template")),
    ("batch", "Job"): _single("spec", "template"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("workloads.x-k8s.io", "RoleBasedGroup"): rbg.slots,
    ("serving.kserve.io", "LLMInferenceService"): kserve.slots,
    ("serving.kserve.io", "LLMInferenceServiceConfig"): kserve.slots,
    ("serving.kserve.io", "InferenceService"): _predictor,
    ("workload.serving.volcano.sh", "ModelServing"): _model_serving,
    ("orchestration.aibrix.ai", "StormService"): _role_set("spec", "template", "spec", "roles"),
    ("orchestration.aibrix.ai", "RoleSet"): _role_set("spec", "roles"),
    ("orchestration.aibrix.ai", "RayClusterFleet"): ray.cluster("spec", "template", "spec"),
    ("ray.io", "RayCluster"): ray.cluster("spec"),
    ("ray.io", "RayService"): ray.service,
    ("grove.io", "PodCliqueSet"): grove.slots,
    ("ome.io", "InferenceService"): _ome("engine", "decoder"),
    ("ome.io", "ServingRuntime"): _ome("engineConfig", "decoderConfig"),
    ("ome.io", "ClusterServingRuntime"): _ome("engineConfig", "decoderConfig"),
}


# The workload's own field for the origin of its weights, which its controller mounts.
_MODEL_SOURCES: dict[tuple[str, str], Steps] = {
    ("serving.kserve.io", "LLMInferenceService"): ("spec", "model", "uri"),
    ("ome.io", "InferenceService"): ("spec", "model", "name"),
}


# Kinds whose pods are made of something else, and where to write the engine instead.
_KSERVE = (
    "KServe makes the pods of {} from a ServingRuntime and an InferenceService together, so they "
    "cannot be wired. Write the engine under spec.predictor.containers of the InferenceService (a "
    "release of vllm/vllm-openai or lmsysorg/sglang with the model in args: what "
    "kserve/huggingfaceserver holds is not known), and its annotations under "
    "spec.predictor.annotations."
)
_ELSEWHERE: dict[tuple[str, str], tuple[Steps, str]] = {
    ("serving.kserve.io", "InferenceService"): (
        ("spec", "predictor", "model"),
        _KSERVE.format("spec.predictor.model"),
    ),
    ("serving.kserve.io", "ServingRuntime"): (("spec",), _KSERVE.format("this kind")),
    ("serving.kserve.io", "ClusterServingRuntime"): (("spec",), _KSERVE.format("this kind")),
}


def elsewhere(manifest: Json) -> str:
    """Return where to write the engine of a kind without pod templates of its own; else ""."""
    steps, advice = _ELSEWHERE.get(_kind(manifest), ((), ""))
    return advice if steps and fieldpaths.get(manifest, steps) else ""


def model_source(manifest: Json) -> str:
    """Return the model's origin by the workload's own field, "" without such a field."""
    steps = _MODEL_SOURCES.get(_kind(manifest))
    value = fieldpaths.get(manifest, steps) if steps else None
    return value if isinstance(value, str) else ""


def _kind(manifest: Json) -> tuple[str, str]:
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    return group, str(manifest.get("kind", ""))
