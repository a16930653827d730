"""From an author's pod and a tier to what the function emits, by its own renderer.

The tier's side and the consumer's side are rendered as two composites, as on a control plane; the
tier counts as ready.
"""

import copy
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.manifests import Manifest, one, render

TIERS = Path(__file__).parent / "tiers"
REQUIRED = TIERS / "required"
CLUSTER = "cpu"
NAMESPACE = "team-a"
READY = {"type": "Ready", "status": "True", "reason": "Available"}
_AT = "2024-01-01T00:00:00Z"


@dataclass(frozen=True)
class Wired:
    """`templates`: engine -> pod template as emitted. `config_maps`: name -> {file: text}."""

    templates: Mapping[str, Manifest]
    config_maps: Mapping[str, Mapping[str, str]]


class Declared:
    """A tier as its platform team wrote it, in `path`. `needs`: the tiers that it names, ready.

    `status`: what the tier says beyond being ready."""

    def __init__(self, path: Path, needs: "tuple[Declared, ...]" = ()):
        self.path, self.needs = path, needs
        self.document: Manifest = yaml.safe_load(path.read_text())
        self.status: Manifest = {}

    @cached_property
    def manifests(self) -> list[Manifest]:
        """What the tier puts on its cluster."""
        with _required_folder(*self.needs) as folder:
            return render(self.path, folder / "required")

    @property
    def ready(self) -> Manifest:
        """The tier as it is on the control plane once it is ready."""
        out = copy.deepcopy(self.document)
        out["status"] = {
            "providerConfigRef": {"name": CLUSTER},
            "conditions": [{**READY, "lastTransitionTime": _AT}],
            **self.status,
        }
        return out

    def wire(
        self,
        engines: Mapping[str, Manifest],
        *,
        policy: str = "Required",
        annotations: Mapping[str, str] | None = None,
        name: str = "tiny",
    ) -> Wired:
        """The pods of a ModelDeployment that names the tier; `engines`: name -> author's pod."""
        reference = {"name": self.document["metadata"]["name"], "policy": policy}
        return consume(self, engines, reference, annotations or {}, name)


def consume(
    tier: Declared,
    engines: Mapping[str, Manifest],
    reference: Mapping[str, str] | None,
    annotations: Mapping[str, str],
    name: str,
) -> Wired:
    """A ModelDeployment's pods; without a `reference` it names no tier."""
    members = []
    for engine, template in engines.items():
        written = copy.deepcopy(template)
        if annotations:
            written.setdefault("metadata", {})["annotations"] = dict(annotations)
        members.append({"name": engine, "members": [{"template": written}]})
    spec: dict[str, Any] = {"inferenceClusterRef": {"name": CLUSTER}, "engines": members}
    if reference is not None:
        spec["kvOffloadTierRef"] = dict(reference)
    consumer = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "template": {"spec": spec}},
    }
    with _required_folder(tier, *tier.needs) as folder:
        path = folder / "consumer.yaml"
        path.write_text(yaml.safe_dump(consumer))
        manifests = render(path, folder / "required")
    templates = {
        engine: one(manifests, "Deployment", engine)["spec"]["template"] for engine in engines
    }
    maps = {m["metadata"]["name"]: m["data"] for m in manifests if m["kind"] == "ConfigMap"}
    return Wired(templates, maps)


@contextmanager
def _required_folder(*tiers: Declared) -> Iterator[Path]:
    """Yield a folder whose `required` holds the cluster and these tiers, ready."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(REQUIRED, folder / "required")
        for tier in tiers:
            name = f"required/{tier.path.stem}.yaml"
            (folder / name).write_text(yaml.safe_dump(tier.ready))
        yield folder
