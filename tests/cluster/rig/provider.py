"""provider-kubernetes, and the workload clusters that it may write to."""

from pathlib import Path

from tests.cluster.rig.apiserver import Cluster
from tests.cluster.rig.certs import Authority
from tests.cluster.rig.crds import install_crds
from tests.cluster.rig.crossplane import NAMESPACE
from tests.cluster.rig.kube import Api, Manifest
from tests.cluster.rig.ports import free_ports, listening
from tests.cluster.rig.processes import Part
from tests.tools.find import module_dir, require

MODULE = "github.com/crossplane-contrib/provider-kubernetes"


def install(api: Api) -> None:
    """The namespaced kinds only; Crossplane v2 compositions use no others."""
    crds = module_dir("provider-kubernetes", MODULE) / "package" / "crds"
    install_crds(api, crds.glob("kubernetes.m.crossplane.io_*.yaml"))


def provider(run: Path, target: Cluster, authority: Authority) -> Part:
    (health,) = free_ports(1)
    environment = {
        "KUBECONFIG": str(target.kubeconfig),
        "TLS_SERVER_CERTS_DIR": str(authority.issue(run / "provider" / "tls", "provider")),
        "ENABLE_SERVER_SIDE_APPLY": "true",
        "ENABLE_WATCHES": "true",
        "HEALTH_PROBE_BIND_ADDRESS": f"127.0.0.1:{health}",
    }
    return Part(
        "provider-kubernetes",
        [str(require("provider-kubernetes"))],
        run / "logs" / "provider-kubernetes.log",
        lambda: listening(health),
        environment,
    )


def provider_config(target: Cluster) -> list[Manifest]:
    """A ClusterProviderConfig named after a workload cluster, and its kubeconfig's Secret."""
    secret = target.kubeconfig_secret(NAMESPACE)
    reference = {**secret["metadata"], "key": "kubeconfig"}
    return [
        secret,
        {
            "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
            "kind": "ClusterProviderConfig",
            "metadata": {"name": target.name},
            "spec": {"credentials": {"source": "Secret", "secretRef": reference}},
        },
    ]
