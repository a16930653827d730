"""A small composer of ModelReplicas, as the step in front of ours, and of what composes them.

It stands in for Modelplane's own: an Object with a Deployment (or a LeaderWorkerSet) per engine,
one container named `engine`, a volume `dshm`, the pod metadata of the member's template, a Service,
readiness and conditions of its own. A ReplicaGroup composes so many ModelReplicas of one template,
and core deletes those that it no longer desires. It knows nothing of KV offload.
"""

from collections.abc import Callable
from typing import Any

import click
import grpc
from crossplane.function import request, resource, response, runtime
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1

NAMESPACE = "default"
_AVAILABLE = (
    "has(object.status) && has(object.status.conditions)"
    " && object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"
)


class Composer(grpcv1.FunctionRunnerServiceServicer):
    """Composes one composite per call, by its kind."""

    async def RunFunction(
        self, req: fnv1.RunFunctionRequest, _: grpc.aio.ServicerContext | None
    ) -> fnv1.RunFunctionResponse:
        rsp = response.to(req)
        composite = resource.struct_to_dict(req.observed.composite.resource)
        composed = _KINDS[composite["kind"]](req, rsp, composite)
        if composed is None:
            _condition(rsp, "ModelReady", "False", "WaitingForCluster")
            return rsp
        for key, manifest in composed.items():
            resource.update(rsp.desired.resources[key], manifest)
            if resource.get_condition(req.observed.resources.get(key), "Ready").status == "True":
                rsp.desired.resources[key].ready = fnv1.READY_TRUE
        serving = all(rsp.desired.resources[k].ready == fnv1.READY_TRUE for k in composed)
        _condition(rsp, "ModelReady", "True" if serving else "False", "Serving" if serving else "")
        return rsp


def _replica(
    req: fnv1.RunFunctionRequest, rsp: fnv1.RunFunctionResponse, replica: dict[str, Any]
) -> dict[str, Any] | None:
    """The Objects of a ModelReplica by key; None while its cluster is not known.

    `placement` is part of every key: a replica that moves gets new Objects. A cluster-scoped
    replica says in which namespace they stand.
    """
    name, cluster = replica["metadata"]["name"], replica["spec"]["clusterName"]
    response.require_resources(
        rsp, "cluster", "modelplane.ai/v1alpha1", "InferenceCluster", match_name=cluster
    )
    found = request.get_required_resource(req, "cluster")
    config = ((found or {}).get("status") or {}).get("providerConfigRef", {}).get("name")
    if not config:
        return None
    composed = {"service": _object(_service(name), config, None)}
    for engine in replica["spec"]["engines"]:
        composed[f"workload-{engine['name']}"] = _object(
            _workload(name, engine), config, _AVAILABLE
        )
    if "objectNamespace" in replica["spec"]:
        for manifest in composed.values():
            manifest["metadata"] = {"namespace": replica["spec"]["objectNamespace"]}
    placement = replica["spec"].get("placement", "")
    return {f"{key}-{placement}" if placement else key: m for key, m in composed.items()}


def _group(
    _: fnv1.RunFunctionRequest, __: fnv1.RunFunctionResponse, group: dict[str, Any]
) -> dict[str, Any]:
    """So many ModelReplicas of one template, by key."""
    return {
        f"replica-{number}": {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelReplica",
            "spec": group["spec"]["template"],
        }
        for number in range(int(group["spec"]["replicas"]))
    }


_KINDS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "ModelReplica": _replica,
    "ClusterReplica": _replica,
    "ReplicaGroup": _group,
}


def _workload(name: str, engine: dict[str, Any]) -> dict[str, Any]:
    labels = {"modelplane.ai/workload": f"{name}-{engine['name']}"}
    metadata = {"name": f"{name}-{engine['name']}", "namespace": NAMESPACE}
    members = {member.get("role", "Standalone"): member for member in engine["members"]}
    if "Standalone" in members:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": engine.get("copies", 1),
                "selector": {"matchLabels": labels},
                "template": _pod(members["Standalone"], labels),
            },
        }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": {
            "replicas": engine.get("copies", 1),
            "leaderWorkerTemplate": {
                "size": 1 + members["Worker"]["worker"]["nodes"],
                "leaderTemplate": _pod(members["Leader"], labels),
                "workerTemplate": _pod(members["Worker"], labels),
            },
        },
    }


def _pod(member: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    template = member["template"]
    given = template["spec"]["containers"][0]
    engine = {
        "name": "engine",
        "image": given["image"],
        "args": given.get("args", []),
        "ports": [{"containerPort": 8000}],
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
    }
    engine |= {key: given[key] for key in ("command", "env") if key in given}
    metadata = template.get("metadata", {})
    return {
        "metadata": {
            "labels": metadata.get("labels", {}) | labels,
            "annotations": metadata.get("annotations", {}),
        },
        "spec": {
            "containers": [engine],
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
    }


def _service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"modelplane.ai/serving": name}, "ports": [{"port": 80}]},
    }


def _object(manifest: dict[str, Any], config: str, cel: str | None) -> dict[str, Any]:
    readiness = {"policy": "DeriveFromCelQuery", "celQuery": cel} if cel else {}
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "spec": {
            "forProvider": {"manifest": manifest},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": config},
            "readiness": readiness or {"policy": "SuccessfulCreate"},
            "watch": bool(cel),
        },
    }


def _condition(rsp: fnv1.RunFunctionResponse, kind: str, status: str, reason: str) -> None:
    condition = resource.Condition(typ=kind, status=status, reason=reason or "Starting")
    response.set_conditions(rsp, condition)


@click.command()
@click.option("--address", required=True)
@click.option("--tls-certs-dir", required=True)
def main(address: str, tls_certs_dir: str) -> None:
    credentials = runtime.load_credentials(tls_certs_dir)
    runtime.serve(Composer(), address, creds=credentials, insecure=False)


if __name__ == "__main__":
    main()
