"""Check what a person gives to `kv-offload render`, before anything runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossplane.function import resource, response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from kv_offload.render import files
from kv_offload.render.derive import KEY_ANNOTATION, quote
from kv_offload.render.files import InputError
from kv_offload.render.store import key_of

Document = dict[str, Any]

# The name in functionRef of a step whose output comes from a file.
_PRESET = "file for step "


class Preset:
    """A stand-in for a function that does not run here: it adds documents to desired state.

    The documents are composed resources as `crossplane composition render` prints them: the key is
    in the annotation crossplane.io/composition-resource-name. Core derives the owner, and the name
    where there is a generateName, so those are left out.
    """

    def __init__(self, documents: Sequence[Document], file: str) -> None:
        self.desired: dict[str, Document] = {}
        for number, document in enumerate(documents, start=1):
            metadata = dict(document.get("metadata") or {})
            annotations = dict(metadata.get("annotations") or {})
            key = annotations.pop(KEY_ANNOTATION, "")
            if not key:
                raise InputError(
                    f"{file}: document {number} ({document['kind']}): the annotation"
                    f" {KEY_ANNOTATION} is missing; it names the composed resource"
                )
            if key in self.desired:
                raise InputError(f"{file}: two documents are the composed resource {quote(key)}")
            metadata.pop("ownerReferences", None)
            if metadata.get("generateName"):
                metadata.pop("name", None)
            metadata["annotations"] = annotations
            kept = {name: value for name, value in metadata.items() if value}
            self.desired[key] = {**document, "metadata": kept}

    async def RunFunction(
        self, req: fnv1.RunFunctionRequest, _: object
    ) -> fnv1.RunFunctionResponse:
        rsp = response.to(req)
        for key, document in self.desired.items():
            resource.update(rsp.desired.resources[key], document)
        return rsp


def check_pair(xr: Mapping[str, Any], composition: Mapping[str, Any], file: str) -> None:
    """Raise InputError unless the Composition is a pipeline for this kind."""
    if composition.get("kind") != "Composition":
        raise InputError(f"{file}: kind is {composition.get('kind')}, expected Composition")
    spec = composition.get("spec") or {}
    if spec.get("mode") != "Pipeline":
        raise InputError(f"{file}: spec.mode is {spec.get('mode')!r}, expected Pipeline")
    reference = spec.get("compositeTypeRef") or {}
    for name in ("apiVersion", "kind"):
        if reference.get(name) != xr.get(name):
            raise InputError(
                f"{file}: spec.compositeTypeRef.{name} is {reference.get(name)}, and the composite"
                f" has {xr.get(name)}"
            )
    selector = ((xr.get("spec") or {}).get("crossplane") or {}).get("compositionSelector") or {}
    labels = (composition.get("metadata") or {}).get("labels") or {}
    for name, value in (selector.get("matchLabels") or {}).items():
        if labels.get(name) != value:
            raise InputError(
                f"{file}: metadata.labels[{name}] is {labels.get(name)!r}, and the composite's"
                f" compositionSelector wants {value!r}"
            )
    if not (composition.get("metadata") or {}).get("name"):
        raise InputError(f"{file}: metadata.name is missing")
    for number, step in enumerate(spec.get("pipeline") or ()):
        if not step.get("step") or not (step.get("functionRef") or {}).get("name"):
            raise InputError(f"{file}: spec.pipeline[{number}]: set step and functionRef.name")


def check_composite(xr: Mapping[str, Any], file: str) -> None:
    """Raise InputError unless Crossplane would run functions for the composite."""
    metadata = xr.get("metadata") or {}
    if not metadata.get("name"):
        raise InputError(f"{file}: metadata.name is missing")
    for field in ("name", "namespace"):
        if not isinstance(metadata.get(field) or "", str):
            raise InputError(f"{file}: metadata.{field} must be a string: write it in quotes")
    spec = xr.get("spec") or {}
    if not isinstance(spec, Mapping):
        raise InputError(f"{file}: spec must be an object")
    if not isinstance(spec.get("crossplane") or {}, Mapping):
        raise InputError(f"{file}: spec.crossplane must be an object")
    status = xr.get("status") or {}
    if not isinstance(status, Mapping):
        raise InputError(f"{file}: status must be an object")
    conditions = status.get("conditions") or []
    if not (isinstance(conditions, list) and all(isinstance(c, Mapping) for c in conditions)):
        raise InputError(f"{file}: status.conditions must be a list of objects")
    if metadata.get("deletionTimestamp"):
        raise InputError(
            f"{file}: metadata.deletionTimestamp is set: Crossplane runs no function for a"
            " composite that is being deleted"
        )
    if (metadata.get("annotations") or {}).get("crossplane.io/paused") == "true":
        raise InputError(
            f"{file}: the composite is paused (annotation crossplane.io/paused): Crossplane runs"
            " no function for it"
        )


def check_required(xr: Document, required: Sequence[Document], file: str) -> None:
    """Raise InputError if the composite is among the required resources."""
    if key_of(xr) in {key_of(document) for document in required}:
        kind, name = xr.get("kind"), (xr.get("metadata") or {}).get("name")
        raise InputError(
            f"{file}: {kind} {name} is among the required resources too. Remove it there:"
            " Crossplane would render that copy"
        )


def with_presets(
    composition: Document, ours: str, presets: Mapping[str, Path]
) -> tuple[Document, dict[str, Preset]]:
    """Return the Composition with preset steps, and the runners of those steps.

    Raise InputError for a step of another function without a file, and a file without a step.
    """
    spec = composition["spec"]
    steps = {step["step"]: step for step in spec.get("pipeline") or ()}
    unknown = sorted(set(presets) - set(steps))
    if unknown:
        known = ", ".join(steps)
        raise InputError(f"--step {unknown[0]}: no such step in the Composition; it has: {known}")
    runners: dict[str, Preset] = {}
    pipeline = []
    for name, step in steps.items():
        function = step["functionRef"]["name"]
        if name in presets:
            function = _PRESET + name
            runners[function] = Preset(files.load(presets[name]), str(presets[name]))
            step = {"step": name, "functionRef": {"name": function}}
        elif function != ours:
            raise InputError(
                f"step {name} runs {function}, which is not available here. Give its composed"
                f" resources with --step {name}=FILE (as `crossplane composition render` prints"
                " them), or render with Crossplane itself"
            )
        pipeline.append(step)
    return {**composition, "spec": {**spec, "pipeline": pipeline}}, runners
