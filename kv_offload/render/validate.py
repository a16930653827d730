"""Validate a KVOffloadTier before it is applied."""

from dataclasses import dataclass
from typing import Annotated, Any

from function.api import fields as f
from function.api.base import ApiModel, parse
from function.backends.registry import BACKENDS
from function.composers import tier_plan
from function.composers.tier_plan import InvalidTier
from function.edge.structs import encode
from function.kube import access
from function.names import API_VERSION

Document = dict[str, Any]


class _Metadata(ApiModel):
    """What the API server demands of a tier's metadata; Crossplane limits the name of an XR."""

    name: Annotated[f.DnsName, f.text(most=63)]
    namespace: f.DnsLabel


@dataclass(frozen=True)
class Verdict:
    """The verdict on one tier.

    `name`: NAMESPACE/NAME. `lines`: the problems of an invalid tier, each with the path of its
    field; the warnings of a valid one.
    """

    name: str
    valid: bool
    lines: tuple[str, ...] = ()


def validate(document: Document) -> Verdict:
    """Return what the condition Accepted would say; what the tier needs is not looked up."""
    metadata = access.mapping(document, "metadata")
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    title = f"{namespace}/{name}"
    if document.get("apiVersion") != API_VERSION:
        wrong = f"apiVersion: is {document.get('apiVersion')}, expected {API_VERSION}"
        return Verdict(title, False, (wrong,))
    known = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    if wrong_names := parse(_Metadata, known, "metadata")[1]:
        return Verdict(title, False, tuple(map(str, wrong_names)))
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return Verdict(title, False, ("spec: must be an object",))
    drafted = tier_plan.draft(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(drafted, InvalidTier):
        return Verdict(title, False, tuple(str(problem) for problem in sorted(drafted.problems)))
    if drafted.needs:
        needed = ", ".join(f"{n.kind} {n.namespace}/{n.object_name}" for n in drafted.needs)
        return Verdict(title, True, (f"warning: not looked up: {needed}",))
    planned = tier_plan.plan(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(planned, InvalidTier):
        return Verdict(title, False, tuple(str(problem) for problem in sorted(planned.problems)))
    warnings = planned.backend.describe(planned.tier).warnings
    return Verdict(title, True, tuple(f"warning: {text}" for text in warnings))
