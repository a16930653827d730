"""What there is on a control plane when something did not come, or did not go."""

from pathlib import Path

import yaml

from tests.cluster.documents import API, OBJECT, USAGE
from tests.cluster.rig.kube import Api, Manifest

KINDS = (
    (API, "KVOffloadTier"),
    (API, "InferenceCluster"),
    (API, "ModelDeployment"),
    (API, "ModelReplica"),
    (OBJECT, "ClusterProviderConfig"),
    (OBJECT, "ProviderConfigUsage"),
    (OBJECT, "Object"),
    (USAGE, "Usage"),
    (USAGE, "ClusterUsage"),
    ("v1", "Event"),
)


def write(api: Api, folder: Path) -> Path:
    """All of these kinds, whole, in one file beside the logs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "control-plane.yaml"
    found = [_plain(each) for place in KINDS for each in api.list(*place)]
    path.write_text(yaml.safe_dump_all(found, sort_keys=False))
    return path


def _plain(manifest: Manifest) -> Manifest:
    metadata = {k: v for k, v in manifest["metadata"].items() if k != "managedFields"}
    return manifest | {"metadata": metadata}
