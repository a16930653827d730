"""Packages: built with Crossplane's CLI, installed by core's own package manager."""

import base64
import subprocess
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.cluster.rig.apiserver import Cluster
from tests.cluster.rig.crossplane import NAMESPACE, condition
from tests.cluster.rig.kube import Manifest
from tests.tools.find import require

API = "pkg.crossplane.io/v1"
_META = "meta.pkg.crossplane.io/v1"


def build(
    folder: Path,
    name: str,
    documents: Iterable[Manifest],
    version: str,
    meta: Manifest | None = None,
) -> Path:
    """A package of some documents; a Configuration, if its metadata say nothing else. Another
    version is another image.
    """
    root = folder / f"{name}-{version}"
    root.mkdir(parents=True)
    meta = meta or {
        "apiVersion": _META,
        "kind": "Configuration",
        "metadata": {"name": name, "annotations": {"meta.crossplane.io/version": version}},
        "spec": {},
    }
    (root / "crossplane.yaml").write_text(yaml.safe_dump(meta))
    for number, document in enumerate(documents):
        (root / f"{number:03}.yaml").write_text(yaml.safe_dump(document))
    file = folder / f"{name}-{version}.xpkg"
    built = [str(require("crossplane")), "xpkg", "build", "--package-root", str(root)]
    subprocess.run([*built, "--package-file", str(file)], check=True, capture_output=True)
    return file


def package(kind: str, name: str, image: str) -> Manifest:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"package": image},
    }


def serve(target: Cluster, name: str, port: int) -> bool:
    """Do for the active revision of a Function what a runtime of its own would: say where it
    listens. False while there is no such revision.
    """
    labels = f"pkg.crossplane.io/package={name}"
    found = target.api.list(API, "FunctionRevision", labels=labels)
    active = [r for r in found if r["spec"]["desiredState"] == "Active"]
    if not active:
        return False
    (revision,) = active
    say_running(target, revision, {"endpoint": f"dns:///localhost:{port}"})
    return True


def say_running(target: Cluster, revision: Manifest, status: Manifest) -> None:
    """Write what the runtime of a package's revision would: its certificate, and that it runs."""
    secret = f"{revision['metadata']['labels']['pkg.crossplane.io/package']}-tls"
    certificate = base64.b64encode(target.ca_bundle).decode()
    target.api.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret, "namespace": NAMESPACE},
            "data": {"tls.crt": certificate},
        }
    )
    known = (revision.get("status") or {}).get("conditions") or []
    rest = [c for c in known if c["type"] != "RuntimeHealthy"]
    status |= {"tlsServerSecretName": secret, "conditions": [*rest, condition("RuntimeHealthy")]}
    target.api.patch(revision, {"status": status}, "status")
