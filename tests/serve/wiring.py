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
    """A tier as its platform team wrote it, in `path`."""

    def __init__(self, path: Path):
        self.path = path
        self.document: Manifest = yaml.safe_load(path.read_text())

    @cached_property
    def manifests(self) -> list[Manifest]:
        """What the tier puts on its cluster."""
        return render(self.path, REQUIRED)

    def wire(
        self,
        engines: Mapping[str, Manifest],
        *,
        policy: str = "Required",
        annotations: Mapping[str, str] | None = None,
        phases: Mapping[str, str] | None = None,
        name: str = "tiny",
    ) -> Wired:
        """The pods of a ModelDeployment that names the tier; `engines`: name -> author's pod."""
        reference = {"name": self.document["metadata"]["name"], "policy": policy}
        return consume(self, engines, reference, annotations or {}, phases or {}, name)


def consume(
    tier: Declared,
    engines: Mapping[str, Manifest],
    reference: Mapping[str, str] | None,
    annotations: Mapping[str, str],
    phases: Mapping[str, str],
    name: str,
) -> Wired:
    """A ModelDeployment's pods; without a `reference` it names no tier."""
    members = []
    for engine, template in engines.items():
        written = copy.deepcopy(template)
        if annotations:
            written.setdefault("metadata", {})["annotations"] = dict(annotations)
        phase = {"phase": phases[engine]} if engine in phases else {}
        members.append({"name": engine, "members": [{"template": written}], **phase})
    spec: dict[str, Any] = {"inferenceClusterRef": {"name": CLUSTER}, "engines": members}
    if reference is not None:
        spec["kvOffloadTierRef"] = dict(reference)
    consumer = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "template": {"spec": spec}},
    }
    with _beside(tier) as folder:
        path = folder / "consumer.yaml"
        path.write_text(yaml.safe_dump(consumer))
        manifests = render(path, folder / "required")
    templates = {
        engine: one(manifests, "Deployment", engine)["spec"]["template"] for engine in engines
    }
    maps = {m["metadata"]["name"]: m["data"] for m in manifests if m["kind"] == "ConfigMap"}
    return Wired(templates, maps)


@contextmanager
def _beside(tier: Declared) -> Iterator[Path]:
    """A folder whose `required` holds the cluster and the tier, ready."""
    ready = copy.deepcopy(tier.document)
    ready["status"] = {
        "providerConfigRef": {"name": CLUSTER},
        "conditions": [{**READY, "lastTransitionTime": _AT}],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(REQUIRED, folder / "required")
        (folder / "required/tier.yaml").write_text(yaml.safe_dump(ready))
        yield folder
