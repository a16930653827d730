"""The LeaderWorkerSet controller of a workload cluster, with its own webhooks."""

from pathlib import Path

from tests.cluster.rig.apiserver import Cluster
from tests.cluster.rig.certs import Authority
from tests.cluster.rig.crds import install_crds, webhooks_by_url
from tests.cluster.rig.kube import Api, load
from tests.cluster.rig.ports import free_ports, listening
from tests.cluster.rig.processes import Part
from tests.tools.find import module_dir, require

_MODULE = "sigs.k8s.io/lws"
_CONFIG = """\
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
webhook: {{port: {port}, certDir: {certificates}}}
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
metrics: {{bindAddress: "0"}}
"""


def install(api: Api) -> None:
    crds = module_dir("lws", _MODULE) / "config" / "crd" / "bases"
    install_crds(api, crds.glob("leaderworkerset*.yaml"))


def controller(run: Path, target: Cluster, authority: Authority) -> tuple[Part, int]:
    """The controller and the port of its webhooks, which give a gang's pods their labels."""
    webhook, health = free_ports(2)
    folder = target.folder / "lws"
    certificates = authority.issue(folder / "tls", "lws")
    config = folder / "config.yaml"
    config.write_text(_CONFIG.format(port=webhook, health=health, certificates=certificates))
    part = Part(
        f"lws-{target.name}",
        [str(require("lws")), f"--config={config}", "--metrics-bind-address=0"],
        run / "logs" / f"lws-{target.name}.log",
        lambda: listening(webhook),
        {"KUBECONFIG": str(target.kubeconfig)},
    )
    return part, webhook


def install_webhooks(target: Cluster, port: int) -> None:
    file = module_dir("lws", _MODULE) / "config" / "webhook" / "manifests.yaml"
    ours = {"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}
    for document in load(file):
        for webhook in document["webhooks"]:
            # As the project's own kustomization narrows it: pods of gangs only.
            if webhook["name"].endswith("pod.kb.io"):
                webhook["objectSelector"] = {"matchExpressions": [ours]}
        target.api.apply(webhooks_by_url(document, port, target.ca_bundle))
