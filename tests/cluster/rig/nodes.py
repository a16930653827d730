"""Simulated nodes: kwok plays their kubelets."""

from pathlib import Path

from tests.cluster.rig.apiserver import Cluster
from tests.cluster.rig.kube import Manifest
from tests.cluster.rig.ports import free_ports
from tests.cluster.rig.processes import Part
from tests.tools.find import module_dir, require

# kwok has no stages of its own: these come from its module. Each is one state change of a node
# or a pod; a pod is Running and Ready at once, and a node renews its lease.
_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
# A pod that waits for an image stays Pending.
_PENDING = "    - key: '.status.phase'\n      operator: 'In'\n      values:\n      - 'Pending'\n"
_IMAGE = "'.spec.containers.[] | select( .image | test(\":broken$\") ) | .name'"
_UNLESS_BROKEN = _PENDING, f"{_PENDING}    - key: {_IMAGE}\n      operator: 'DoesNotExist'\n"


def kwok(run: Path, target: Cluster) -> Part:
    stages = module_dir("kwok", "sigs.k8s.io/kwok") / "kustomize" / "stage"
    config = target.folder / "kwok.yaml"
    files = [*(stages / name for name in _STAGES), Path(__file__).with_name("stages.yaml")]
    config.write_text("\n---\n".join(file.read_text() for file in files).replace(*_UNLESS_BROKEN))
    (port,) = free_ports(1)
    argv = [
        str(require("kwok")),
        f"--kubeconfig={target.kubeconfig}",
        f"--config={config}",
        "--manage-all-nodes=true",
        # Without leases every node turns NotReady after 40 s.
        "--node-lease-duration-seconds=20",
        f"--server-address=127.0.0.1:{port}",
    ]
    return Part(f"kwok-{target.name}", argv, run / "logs" / f"kwok-{target.name}.log")


def gpu_node(name: str, labels: dict[str, str] | None = None, memory_gib: int = 1024) -> Manifest:
    """A node with eight GPUs, two RDMA devices and so much memory.

    GFD's label says which product; the taint is the one that GPU pools usually carry.
    """
    capacity = {
        "cpu": "192",
        "memory": f"{memory_gib}Gi",
        "ephemeral-storage": "4000Gi",
        "hugepages-2Mi": "0",
        "pods": "500",
        "nvidia.com/gpu": "8",
        "rdma/hca": "8",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": "NVIDIA-H200",
            }
            | (labels or {}),
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def cpu_node(name: str) -> Manifest:
    """A plain node: where nothing that belongs to GPUs may land."""
    capacity = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "500"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
