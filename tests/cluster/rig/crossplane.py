"""Crossplane core with external functions, and how it learns where they listen."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig.apiserver import Cluster
from tests.cluster.rig.certs import Authority
from tests.cluster.rig.crds import install_crds, webhooks_by_url
from tests.cluster.rig.kube import Api, Manifest, load
from tests.cluster.rig.ports import free_ports, listening
from tests.cluster.rig.processes import Part
from tests.tools.find import CORE, module_dir, require

MODULE = "github.com/crossplane/crossplane/v2"
NAMESPACE = "crossplane-system"
# What the install page recommends for fleets. With core's default the breaker opens for nearly
# every new tier, and each waits for the function's TTL.
FLEET_FLAGS = ("--circuit-breaker-burst=1000", "--circuit-breaker-refill-rate=10")


@dataclass(frozen=True)
class Core:
    part: Part
    metrics_port: int
    webhook_port: int


def install(api: Api) -> None:
    """The CRDs and the namespace of Crossplane."""
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    install_crds(api, (module_dir(CORE, MODULE) / "cluster" / "crds").glob("*.yaml"))


def core(
    run: Path,
    target: Cluster,
    authority: Authority,
    *flags: str,
    kubeconfig: Path | None = None,
    environment: Mapping[str, str] = {},
) -> Core:
    """Core as the chart runs it, but for where functions run (External) and its ports."""
    certificates = authority.issue(run / "core" / "tls", "crossplane")
    metrics, probe, webhook = free_ports(3)
    variables = {
        "KUBECONFIG": str(kubeconfig or target.kubeconfig),
        "TLS_CLIENT_CERTS_DIR": str(certificates),
        "TLS_SERVER_CERTS_DIR": str(certificates),
        "ENABLE_WEBHOOKS": "true",
        "WEBHOOK_PORT": str(webhook),
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(probe),
        "POD_NAMESPACE": NAMESPACE,
        "XPKG_CACHE_DIR": str(run / "core" / "xpkg"),
        **environment,
    }
    (run / "core" / "xpkg").mkdir(parents=True, exist_ok=True)
    argv = [str(require(CORE)), "core", "start", "--package-runtime=External", *flags]
    part = Part(
        "core",
        argv,
        run / "logs" / "core.log",
        lambda: listening(webhook) and listening(metrics),
        variables,
    )
    return Core(part, metrics, webhook)


def install_usage_webhook(target: Cluster, port: int) -> None:
    """What makes a Usage block deletion for real."""
    file = module_dir(CORE, MODULE) / "cluster" / "webhookconfigurations" / "usage.yaml"
    for document in load(file):
        target.api.apply(webhooks_by_url(document, port, target.ca_bundle))


def register_function(api: Api, name: str, port: int) -> None:
    """Tell core that a function serves composition on a local port.

    The package manager must not touch it (`paused`), so what it would write, we write.
    """
    paused = {"crossplane.io/paused": "true"}
    image = f"local.test/{name}:v0.0.0"
    function: Manifest = {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {"name": name, "annotations": paused},
        "spec": {"package": image, "packagePullPolicy": "Never"},
    }
    revision: Manifest = {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "FunctionRevision",
        "metadata": {
            "name": f"{name}-1",
            "annotations": paused,
            "labels": {"pkg.crossplane.io/package": name},
        },
        "spec": {
            "desiredState": "Active",
            "image": image,
            "revision": 1,
            "packagePullPolicy": "Never",
        },
    }
    api.apply(function)
    api.apply(revision)
    serve_at = {"endpoint": f"dns:///localhost:{port}", "capabilities": ["composition"]}
    healthy = [condition("RevisionHealthy"), condition("RuntimeHealthy")]
    api.patch(revision, {"status": serve_at | {"conditions": healthy}}, "status")
    installed = [condition("Healthy"), condition("Installed")]
    api.patch(function, {"status": {"conditions": installed}}, "status")


def condition(kind: str) -> Manifest:
    return {
        "type": kind,
        "status": "True",
        "reason": "Rig",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
