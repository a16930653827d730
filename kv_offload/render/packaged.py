"""Copy a Composition that belongs to a package, with our step, and select the copy.

Crossplane's package manager restores what it installed: an edited Composition, and a
`defaultCompositionRef` or `enforcedCompositionRef` set on a packaged XRD, are undone two seconds
after core's next start (tests/cluster/test_85_packages.py). Three ways last:

- a copy of another name, and an admission policy that makes every composite of the kind name it.
  Composites that another composite composes have no other place to choose. Without the policy core
  picks one of the two Compositions at random;
- a copy of another name, named by each composite in `spec.crossplane.compositionRef`, where people
  write the composites;
- the package built anew with the step in it, under another address.

A copy does not follow the package. It records its original, so that `kv-offload doctor` can tell
when the packaged Composition has changed.
"""

import copy
import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from function import names
from function.kube import access
from kv_offload.render import append, emit
from kv_offload.render.files import InputError, parse, read_text

Document = dict[str, Any]

_POLICY_API = "admissionregistration.k8s.io/v1"
_PACKAGE_META = "meta.pkg.crossplane.io/"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def is_packaged(composition: Mapping[str, Any]) -> bool:
    """Return whether a Composition from `kubectl get` belongs to a package's revision."""
    owners = access.objects(composition, "metadata", "ownerReferences")
    return any(str(o.get("apiVersion", "")).startswith("pkg.crossplane.io/") for o in owners)


def digest(composition: Mapping[str, Any]) -> str:
    """Return a digest of what a Composition composes: twelve hex digits."""
    spec = access.mapping(composition, "spec")
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def copied(composition: Document, name: str, step: str, function: str, where: str) -> Document:
    """Return the Composition under another name, with our step last.

    Metadata that the cluster and the package wrote is left out. Raise InputError.
    """
    metadata = access.mapping(composition, "metadata")
    kind = access.mapping(composition, "spec", "compositeTypeRef")
    if not all(access.text(kind, key) for key in ("apiVersion", "kind")):
        raise InputError(f"{where}: spec.compositeTypeRef names no apiVersion and kind")
    annotations = {
        key: value
        for key, value in access.mapping(metadata, "annotations").items()
        if key != _LAST_APPLIED
    }
    source = f"{access.text(metadata, 'name')}@{digest(composition)}"
    made: Document = {
        "apiVersion": composition.get("apiVersion"),
        "kind": "Composition",
        "metadata": {"name": name, "annotations": annotations | {names.ANNOTATION_COPY_OF: source}},
        "spec": copy.deepcopy(composition["spec"]),
    }
    if metadata.get("labels"):
        made["metadata"]["labels"] = metadata["labels"]
    append.append_to(made, where, step, function)
    return made


def selection(composition: Mapping[str, Any], packaged: str) -> list[Document]:
    """Return the admission policy that makes composites of the kind name this Composition.

    Its binding comes with it. A composite that names a Composition other than the packaged one
    keeps it. Needs Kubernetes 1.36 or newer.
    """
    name = composition["metadata"]["name"]
    kind = composition["spec"]["compositeTypeRef"]
    chosen = "object.spec.crossplane.compositionRef"
    unset = "!has(object.spec) || !has(object.spec.crossplane) || !has(" + chosen + ")"
    path = "Object.spec.crossplane.compositionRef"
    mutation = (
        "Object{spec: Object.spec{crossplane: Object.spec.crossplane{compositionRef: "
        f'{path}{{name: "{name}"}}}}}}}}'
    )
    policy = {
        "apiVersion": _POLICY_API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [kind["apiVersion"].partition("/")[0]],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["*"],
                    }
                ]
            },
            "matchConditions": [
                {"name": "kind", "expression": f'request.kind.kind == "{kind["kind"]}"'},
                {
                    "name": "names-no-other-composition",
                    "expression": f'{unset} || {chosen}.name == "{packaged}"',
                },
            ],
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": mutation},
                }
            ],
        },
    }
    binding = {
        "apiVersion": _POLICY_API,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }
    return [policy, binding]


def rebuilt(path: Path, kind: str, step: str, function: str) -> dict[str, str]:
    """Return a package's files with our step in its Composition: file name -> text.

    `path`: the package's YAML stream, or what `crossplane xpkg extract` writes (the same, gzipped).
    Raise InputError.
    """
    documents = parse(_stream(path), str(path))
    metas = [d for d in documents if str(d.get("apiVersion", "")).startswith(_PACKAGE_META)]
    if len(metas) != 1 or metas[0].get("kind") != "Configuration":
        raise InputError(
            f"{path}: not one Configuration package: create the file with `crossplane xpkg extract`"
        )
    found = [d for d in documents if _composes(d, kind)]
    if not found:
        kinds = sorted({_composed(d) for d in documents if d.get("kind") == "Composition"})
        raise InputError(
            f"{path}: no Composition of {kind}; there are those of: {', '.join(kinds)}"
        )
    for composition in found:
        append.append_to(composition, str(path), step, function)
    rest = [d for d in documents if d is not metas[0]]
    return {"crossplane.yaml": emit.to_yaml(metas), "package.yaml": emit.to_yaml(rest)}


def _stream(path: Path) -> str:
    if path.suffix != ".gz":
        return read_text(path)
    try:
        return gzip.decompress(path.read_bytes()).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error


def _composed(document: Mapping[str, Any]) -> str:
    return access.text(document, "spec", "compositeTypeRef", "kind")


def _composes(document: Mapping[str, Any], kind: str) -> bool:
    return document.get("kind") == "Composition" and _composed(document) == kind
