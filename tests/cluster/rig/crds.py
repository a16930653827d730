"""Custom resource definitions and webhooks that come in module zips."""

import base64
import copy
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.rig.kube import Api, Manifest, is_true, load
from tests.cluster.rig.wait import until
from tests.tools.find import module_dir


def install_crds(api: Api, files: Iterable[Path], limit: float = 30) -> list[str]:
    """Apply the CRDs of some files and wait until each is served; their names."""
    applied = []
    for file in sorted(files):
        for document in load(file):
            if document["kind"] == "CustomResourceDefinition":
                document.pop("status", None)
                # Conversion webhooks of packages point to Services, which do not exist here.
                document["spec"].pop("conversion", None)
                api.apply(document)
                applied.append(document)
    for document in applied:
        name = document["metadata"]["name"]
        until(
            lambda d=document: is_true(api.again(d), "Established"),
            f"CRD {name} is established on {api.name}",
            limit,
            every=0.02,
        )
    return [document["metadata"]["name"] for document in applied]


def install_monitoring(api: Api) -> None:
    """The CRDs of the Prometheus operator that tiers may use."""
    module = "github.com/prometheus-operator/prometheus-operator"
    folder = module_dir("prometheus-operator", module) / "example" / "prometheus-operator-crd"
    kinds = ("podmonitors", "prometheusrules")
    install_crds(api, [folder / f"monitoring.coreos.com_{kind}.yaml" for kind in kinds])


def webhooks_by_url(document: Manifest, port: int, ca_bundle: bytes) -> Manifest:
    """The same webhook configuration, calling a local port instead of a Service."""
    changed = copy.deepcopy(document)
    for webhook in changed["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {
            "url": f"https://localhost:{port}{path}",
            "caBundle": base64.b64encode(ca_bundle).decode(),
        }
    return changed
