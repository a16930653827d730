"""Compose a standalone ModelDeployment: engine workloads and a Service, then their wiring.

An engine with a Standalone member becomes a Deployment; a Leader with Workers becomes a
LeaderWorkerSet. What a pod looks like is the user's template: nothing is injected here; wiring is
the consumer composer's work on the resources composed here, as it is on anyone else's.

Beside Modelplane this composer never runs: Modelplane's own function composes its ModelDeployment.
"""

from function import names
from function.api.base import parse
from function.api.deployment import EngineSpec, Member, ModelDeploymentSpec
from function.api.input import Input
from function.backends.registry import Registry
from function.composers import conditions as c
from function.composers import outage
from function.composers.consumer import applied
from function.composers.consumer import composer as consumer
from function.composers.refusal import refused
from function.edge.answer import (
    FALSE,
    TRUE,
    TTL_SETTLED,
    TTL_UNSETTLED,
    UNKNOWN,
    Answer,
    Composed,
    Condition,
    Requirement,
)
from function.edge.request import Call
from function.kube import access, naming, objects
from function.kube.access import Json

CONDITION_WORKLOADS = "WorkloadsReady"

# Where Modelplane puts engine pods too.
REMOTE_NAMESPACE = "default"
REQUIRED_CLUSTER = "cluster"
LABEL_SERVING = "modelplane.ai/serving"
LABEL_ENGINE = "modelplane.ai/engine"

# While an old pod is left, it may be the one that is available.
READY_DEPLOYMENT = (
    "object.status.observedGeneration == object.metadata.generation"
    " && object.status.replicas == object.spec.replicas"
    " && object.status.updatedReplicas == object.spec.replicas"
    " && object.status.availableReplicas == object.spec.replicas"
)
# Kubernetes leaves out counts of zero.
READY_NONE = (
    "object.status.observedGeneration == object.metadata.generation && !has(object.status.replicas)"
)
READY_GANG = "object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"


def compose(call: Call, step_input: Input, backends: Registry) -> Answer:
    """Compose the engines' workloads and Service on the chosen cluster, wired to their tier."""
    document = call.composite
    spec, problems = parse(ModelDeploymentSpec, document.get("spec", {}), "spec")
    if spec is None or problems:
        return refused(call, "deployment", problems)
    answer = Answer(conditions=[Condition(c.CONDITION_ACCEPTED, TRUE, c.REASON_VALID)])
    cluster = spec.template.spec.inference_cluster_ref.name
    answer.requirements[REQUIRED_CLUSTER] = Requirement(
        names.API_VERSION, "InferenceCluster", name=cluster
    )
    provider_config = _resolve_cluster(call, answer, cluster)
    if provider_config:
        _compose_workloads(call, answer, spec, provider_config)
    _derive_readiness(call, answer, cluster, provider_config)
    wiring = consumer.compose(call, step_input, backends)
    answer.status = _status(call, spec)
    if tier := _tier(spec, wiring, step_input.tier_namespace):
        answer.status["tier"] = tier
    return _merged(answer, wiring)


def _tier(spec: ModelDeploymentSpec, wiring: Answer, tier_namespace: str) -> str:
    """Return the tier that the pods are wired to, "" where they are not; a chosen one as it is."""
    ref = spec.template.spec.kv_offload_tier_ref
    if ref is None or not consumer.is_wired(wiring):
        return ""
    if ref.name != names.AUTO:
        return f"{ref.namespace or tier_namespace}/{ref.name}"
    made = (each.manifest for each in wiring.resources.values())
    used = (
        access.texts(m, "metadata", "annotations").get(names.ANNOTATION_USED_TIER) for m in made
    )
    return next((tier for tier in used if tier), "")


def _status(call: Call, spec: ModelDeploymentSpec) -> Json:
    settings = spec.template.spec
    serving = _serving(call)
    ready = [_ready_copies(call, engine) // engine.copies for engine in settings.engines]
    return {
        "cluster": settings.inference_cluster_ref.name,
        "endpoint": f"{serving}.{REMOTE_NAMESPACE}.svc:{settings.service.port}",
        "replicas": {"total": spec.replicas, "ready": min(ready)},
    }


def _ready_copies(call: Call, engine: EngineSpec) -> int:
    path = (*objects.STATUS_MANIFEST, "status", "readyReplicas")
    return int(call.observed_value(_key(engine), *path) or 0)


def _serving(call: Call) -> str:
    """Return the name of the Service, with which the workloads' names begin."""
    name = str(call.composite_value("metadata", "name"))
    namespace = str(call.composite_value("metadata", "namespace") or "")
    return naming.label(name, unique=(namespace, name), limit=50)


def _key(engine: EngineSpec) -> str:
    kind = "deployment" if len(engine.members) == 1 else "leaderworkerset"
    return f"{kind}-{engine.name}"


def _resolve_cluster(call: Call, answer: Answer, cluster: str) -> str:
    clusters = call.required_values(REQUIRED_CLUSTER, ("status", "providerConfigRef", "name"))
    provider_config = clusters[0][0] if clusters else None
    if provider_config:
        answer.conditions.append(Condition(c.CONDITION_CLUSTER, TRUE, c.REASON_RESOLVED))
        return str(provider_config)
    path = "spec.template.spec.inferenceClusterRef.name"
    states = {
        "unresolved": (UNKNOWN, c.REASON_RESOLVING, f"Waiting for InferenceCluster {cluster}."),
        "absent": (
            FALSE,
            c.REASON_CLUSTER_NOT_FOUND,
            f"{path}: there is no InferenceCluster {cluster}. Create it, or correct the name.",
        ),
        "waiting": (
            FALSE,
            c.REASON_NO_PROVIDER_CONFIG,
            f"InferenceCluster {cluster} has no status.providerConfigRef yet.",
        ),
    }
    state = "unresolved" if clusters is None else "waiting" if clusters else "absent"
    answer.conditions.append(Condition(c.CONDITION_CLUSTER, *states[state]))
    # What runs keeps the cluster it was composed for.
    return call.observed_provider_config()


def _compose_workloads(
    call: Call, answer: Answer, spec: ModelDeploymentSpec, provider_config: str
) -> None:
    serving = _serving(call)
    for engine in spec.template.spec.engines:
        key = _key(engine)
        manifest, ready = _workload(engine, serving, spec.replicas)
        wrapped = objects.wrap(manifest, provider_config, ready=ready, watch=True)
        answer.resources[key] = Composed(wrapped, call.observed_ready(key))
    service = objects.wrap(_service(serving, spec), provider_config)
    there = call.observed_ready("service", by_existing=True)
    answer.resources["service"] = Composed(service, there)
    call.desire({key: dict(v.manifest) for key, v in answer.resources.items()})


def _workload(engine: EngineSpec, serving: str, replicas: int) -> tuple[Json, str]:
    """Return the manifest and the readiness query of one engine."""
    name = naming.label(serving, engine.name, limit=52)
    selector = {LABEL_ENGINE: name}
    copies = replicas * engine.copies
    members = {m.role: m for m in engine.members}
    metadata = {"name": name, "namespace": REMOTE_NAMESPACE, "labels": selector}
    if "Standalone" in members:
        labels = {**selector, LABEL_SERVING: serving}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": copies,
                "selector": {"matchLabels": selector},
                "template": _template(members["Standalone"], labels),
            },
        }
        return deployment, READY_DEPLOYMENT if copies else READY_NONE
    leader, worker = members["Leader"], members["Worker"]
    gang = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": {
            "replicas": copies,
            "leaderWorkerTemplate": {
                "size": leader.pods + worker.pods,
                "leaderTemplate": _template(leader, {**selector, LABEL_SERVING: serving}),
                "workerTemplate": _template(worker, selector),
            },
        },
    }
    return gang, READY_GANG


def _template(member: Member, labels: dict[str, str]) -> Json:
    metadata = member.template.metadata
    ours: Json = {"labels": {**(metadata.labels or {}), **labels}}
    if metadata.annotations:
        ours["annotations"] = dict(metadata.annotations)
    return {"metadata": ours, "spec": member.template.spec.dump()}


def _service(serving: str, spec: ModelDeploymentSpec) -> Json:
    port = spec.template.spec.service.port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": serving, "namespace": REMOTE_NAMESPACE},
        "spec": {
            "selector": {LABEL_SERVING: serving},
            "ports": [{"name": "http", "port": port, "protocol": "TCP", "targetPort": port}],
        },
    }


def _derive_readiness(call: Call, answer: Answer, cluster: str, provider_config: str) -> None:
    kind = CONDITION_WORKLOADS
    waiting = sorted(k for k, v in answer.resources.items() if not v.ready)
    unseen = outage.not_observed(call, kind, answer.resources, cluster)
    old = sorted(k for k in answer.resources if call.is_observed(k) and not call.is_applied(k))
    not_applied = outage.quoted((key, _why_not_applied(call, key)) for key in old)
    if not answer.resources:
        condition = Condition(kind, FALSE, c.REASON_WAITING)
    elif unseen:
        condition = unseen
    elif not_applied:
        condition = Condition(kind, FALSE, c.REASON_NOT_APPLIED, not_applied)
    elif outage.moves(call, answer.resources, provider_config, kind, c.REASON_WAITING):
        message = f"Not on cluster {cluster} yet."
        condition = Condition(kind, FALSE, c.REASON_WAITING, message)
    elif waiting:
        message = "Not ready yet: " + ", ".join(waiting)
        condition = Condition(kind, FALSE, c.REASON_STARTING, message)
    elif old:
        message = f"Not updated yet: {', '.join(old)}."
        condition = Condition(kind, TRUE, c.REASON_UPDATING, message)
    else:
        condition = Condition(kind, TRUE, c.REASON_READY)
    answer.conditions.append(condition)
    answer.ready = condition.status == TRUE
    answer.ttl = TTL_SETTLED if answer.ready and not old else TTL_UNSETTLED


def _why_not_applied(call: Call, key: str) -> str:
    """Return why the cluster lacks the manifest of an observed Object, "" where it soon has it."""
    wanted = call.observed_value(key, *objects.MANIFEST)
    return applied.problem(call, key, {}, lambda there: access.holds(there, wanted))


def _merged(own: Answer, wiring: Answer) -> Answer:
    """Return what this step composes, as wiring left it."""
    for key, manifest in wiring.patched.items():
        if key in own.resources:
            own.resources[key] = Composed(manifest, own.resources[key].ready)
    for key in wiring.removed:
        own.resources.pop(key, None)
    own.resources.update(wiring.resources)
    own.requirements.update(wiring.requirements)
    own.conditions += wiring.conditions
    own.refusals += wiring.refusals
    own.bugs += wiring.bugs
    own.ready = False if wiring.ready is False else own.ready
    own.ttl = min(own.ttl, wiring.ttl)
    return own
