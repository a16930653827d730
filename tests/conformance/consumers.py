"""An engine that names the tier of an example, wired as `kv-offload render` wires it."""

from pathlib import Path

import yaml

from tests.conformance.manifests import Manifest, one, render

AT = "2024-01-01T00:00:00Z"
READY = {"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": AT}


def wired(tier: Path, template: Manifest, folder: Path) -> list[Manifest]:
    """The manifests of a deployment of one engine, whose pod template is `template`.

    `tier`: an example, taken for ready; `required/cluster.yaml` lies beside it. `folder`: empty.
    """
    document = yaml.safe_load(tier.read_text())
    cluster = document["spec"]["inferenceClusterRef"]
    document["spec"]["allowedNamespaces"] = {"from": "All"}
    document["status"] = {"providerConfigRef": cluster, "conditions": [READY]}
    required = folder / "required"
    required.mkdir()
    (required / "tier.yaml").write_text(yaml.safe_dump(document))
    (required / "cluster.yaml").write_text((tier.parent / "required/cluster.yaml").read_text())
    spec = {
        "inferenceClusterRef": cluster,
        "kvOffloadTierRef": {"name": document["metadata"]["name"]},
        "engines": [{"name": "engine", "members": [{"template": template}]}],
    }
    consumer = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen", "namespace": "team-a"},
        "spec": {"replicas": 1, "template": {"spec": spec}},
    }
    (folder / "consumer.yaml").write_text(yaml.safe_dump(consumer))
    return render(folder / "consumer.yaml", required)


def engine(manifests: list[Manifest]) -> Manifest:
    """The container of the one engine."""
    (found,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found
