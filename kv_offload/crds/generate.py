"""Write what the API types determine: XRDs, the Input's CRD and the reference pages.

`python -m kv_offload.crds.generate` writes them below the current directory; `--check` lists those
that differ and exits with 1 if any does.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from function.api import cluster, deployment, tier
from function.api import input as step
from function.api.backends import SPECS, field_name
from function.api.base import ApiModel
from function.names import API_VERSION, GROUP, VERSION
from kv_offload.crds import status
from kv_offload.crds.reference import Page, reference
from kv_offload.crds.schema import Schema, structural

_HEADER = "# Generated from function/api by `make generate`; edit the types, not this file.\n"
# What an InferenceCluster has of a tier's spec.
_INLINE = (
    "The spec of a [KVOffloadTier](kvoffloadtier.md) with a `name`, and without "
    "`inferenceClusterRef` and `clusterSelector`."
)


@dataclass(frozen=True)
class Kind:
    """One composite kind: its types, its names and what `kubectl get` shows of it.

    `columns`: (name, type, jsonPath). Crossplane itself adds SYNCED, READY, COMPOSITION and AGE.
    """

    kind: str
    scope: str
    short: str
    path: str
    spec: type[ApiModel]
    status: type[ApiModel]
    columns: tuple[tuple[str, str, str], ...]
    scale: bool = False

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"


KINDS = (
    Kind(
        "KVOffloadTier",
        "Namespaced",
        "kvot",
        "xrd/kvoffloadtier.yaml",
        tier.KVOffloadTierSpec,
        status.KVOffloadTierStatus,
        (
            ("CLUSTER", "string", ".status.cluster"),
            ("BACKEND", "string", ".spec.backend"),
            ("AGENTS", "string", ".status.agents.summary"),
            ("USED-BY", "string", ".status.consumers"),
            ("HITS", "string", ".status.serving.hits"),
            ("USED", "string", ".status.serving.used"),
        ),
    ),
    Kind(
        "InferenceCluster",
        "Cluster",
        "ic",
        "xrd/standalone/inferencecluster.yaml",
        cluster.InferenceClusterSpec,
        status.InferenceClusterStatus,
        (
            ("SOURCE", "string", ".spec.cluster.source"),
            ("TIERS", "string", ".status.kvOffloadTiers[*].name"),
        ),
    ),
    Kind(
        "ModelDeployment",
        "Namespaced",
        "md",
        "xrd/standalone/modeldeployment.yaml",
        deployment.ModelDeploymentSpec,
        status.ModelDeploymentStatus,
        (
            ("REPLICAS", "integer", ".status.replicas.ready"),
            ("CLUSTER", "string", ".spec.template.spec.inferenceClusterRef.name"),
            ("TIER", "string", ".status.tier"),
        ),
        scale=True,
    ),
)


def xrd(kind: Kind) -> dict[str, Any]:
    """Return the CompositeResourceDefinition of a kind."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "referenceable": True,
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path} for name, type_, path in kind.columns
        ],
    }
    if kind.scale:
        version["subresources"] = {
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas.total",
            }
        }
    version["schema"] = {
        "openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": structural(kind.spec), "status": structural(kind.status)},
        }
    }
    name = f"{kind.plural}.{GROUP}"
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [kind.short],
                "categories": ["crossplane", "modelplane"],
            },
            "scope": kind.scope,
            # Two Compositions of a kind without a default are picked from at random.
            "defaultCompositionRef": {"name": name},
            "versions": [version],
        },
    }


def input_crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition of the step's Input; nothing ever stores one."""
    schema: Schema = structural(step.Input)
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    } | schema["properties"]
    group, version = step.API_VERSION.split("/")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"inputs.{group}"},
        "spec": {
            "group": group,
            "names": {
                "kind": step.KIND,
                "listKind": f"{step.KIND}List",
                "plural": "inputs",
                "singular": "input",
                "categories": ["crossplane"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Write no anchors: readers of a CRD want it in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def emit(document: dict[str, Any]) -> str:
    """Return a generated manifest as YAML, keys in the order they were made."""
    return _HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100)


def outputs() -> dict[str, str]:
    """Return every generated file: path below the repository's root -> content."""
    files = {kind.path: emit(xrd(kind)) for kind in KINDS}
    group = step.API_VERSION.split("/")[0]
    files[f"package/input/{group}_inputs.yaml"] = emit(input_crd())
    files |= reference(pages())
    return files


def pages() -> list[Page]:
    """Return the pages of the reference: a kind each, and each backend's settings."""
    files = {f"spec.{field_name(name)}": f"kvoffloadtier-{field_name(name)}.md" for name in SPECS}
    links = {path: f"[Fields]({file})." for path, file in files.items()}
    links["spec.kvOffloadTiers[]"] = _INLINE
    found = []
    for kind in KINDS:
        spec, scope = (
            structural(kind.spec),
            "namespaced" if kind.scope == "Namespaced" else "cluster-scoped",
        )
        parts = (("spec", spec), ("status", structural(kind.status)))
        about = f"`{API_VERSION}`, {scope}. {spec['description']}"
        found.append(Page(f"{kind.kind.lower()}.md", kind.kind, about, parts, links))
    tiers = structural(tier.KVOffloadTierSpec)["properties"]
    for name, (path, file) in zip(SPECS, files.items(), strict=True):
        part = tiers[field_name(name)]
        title = f"KVOffloadTier, backend {name}"
        found.append(Page(file, title, part["description"], ((path, part),), {}))
    last = structural(step.Input)
    about = f"`{step.API_VERSION}`. {last['description']}"
    return [*found, Page("input.md", step.KIND, about, (("", last),), {})]


def drift(root: Path) -> list[str]:
    """Return the generated files that differ from what the types say."""
    return [
        path
        for path, content in outputs().items()
        if not (root / path).is_file() or (root / path).read_text() != content
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which files differ")
    check = parser.parse_args().check
    root = Path.cwd()
    files = outputs()
    for path in drift(root):
        print(f"{path} differs from function/api: run make generate" if check else path)
        if not check:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(files[path])
    return 1 if drift(root) else 0


if __name__ == "__main__":
    sys.exit(main())
