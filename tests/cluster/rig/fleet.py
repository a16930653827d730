"""A small inference fleet on the rig: nodes, our packages, and one InferenceCluster per cluster."""

from tests.cluster.rig.apiserver import Cluster
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, describe, is_true
from tests.cluster.rig.nodes import cpu_node, gpu_node
from tests.cluster.rig.up import Rig

SYSTEM = "modelplane-system"
GPU_NODES = 3


def install_packages(rig: Rig) -> None:
    """Our XRDs and Compositions, the tier's and the standalone ones, as the packages hold them."""
    rig.install_package(CHECKOUT / "xrd", CHECKOUT / "xrd" / "standalone")
    rig.install_package(CHECKOUT / "compositions", CHECKOUT / "compositions" / "standalone")


def namespace(name: str, labels: dict[str, str] | None = None) -> Manifest:
    metadata = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def inference_cluster(target: Cluster) -> list[Manifest]:
    """An InferenceCluster of an existing cluster, and the Secret with its kubeconfig."""
    secret = target.kubeconfig_secret(SYSTEM)
    reference = {"name": secret["metadata"]["name"], "key": "kubeconfig"}
    return [
        secret,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": target.name, "labels": {"accelerator": "h200"}},
            "spec": {
                "cluster": {"source": "Existing", "existing": {"secretRef": reference}},
            },
        },
    ]


def runtime_class() -> Manifest:
    """What shows all GPUs of a node; the API server refuses pods that name a missing one."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }


def add_nodes(rig: Rig, name: str) -> None:
    """What every workload cluster has: nodes with GPUs, and one without."""
    rig.workload(name).api.apply(runtime_class())
    nodes = [gpu_node(f"{name}-gpu-{n}") for n in range(GPU_NODES)]
    rig.apply_nodes(rig.workload(name), [*nodes, cpu_node(f"{name}-cpu-0")])


def declare(rig: Rig, packages: bool = True) -> None:
    """Nodes on every workload cluster, then the fleet on the control plane; waits until Ready.

    Without `packages` the kinds are there already.
    """
    for name in rig.workloads:
        add_nodes(rig, name)
    api = rig.control.api
    for each in (SYSTEM, "team-a", "team-b"):
        api.apply(namespace(each))
    if packages:
        install_packages(rig)
    for name in rig.workloads:
        for manifest in inference_cluster(rig.workload(name)):
            api.apply(manifest)
    for name in rig.workloads:
        rig.until(
            lambda n=name: is_true(
                api.get("modelplane.ai/v1alpha1", "InferenceCluster", n), "Ready"
            ),
            f"InferenceCluster {name} is Ready",
            explain=lambda n=name: describe(api, inference_cluster(rig.workload(n))[1]),
        )
