"""Tiers in files: which there are, what they need of each other, and their plans."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from function.api import fields as f
from function.api.base import ApiModel, parse
from function.backends.registry import BACKENDS
from function.composers import quarantine, tier_plan
from function.composers.fleet_rollout import stamped
from function.composers.tier_plan import TierPlan
from function.contract.backend import ModelName
from function.edge.structs import encode
from function.kube import access
from function.names import API_VERSION
from kv_offload.render.files import InputError

Document = dict[str, Any]


class MissingTier(InputError):
    """A tier that another one needs is missing."""


def distinct(tiers: Iterable[Document]) -> list[Document]:
    """Return the documents, each once. Raise InputError for two that differ under one name."""
    found: list[Document] = []
    for tier in tiers:
        same = [each for each in found if access.named(each) == access.named(tier)]
        if tier in same:
            continue
        if same:
            _, namespace, name = access.named(tier)
            raise InputError(f"{tier['kind']} {namespace}/{name} is given twice, and differs")
        found.append(tier)
    return found


def top_tiers(tiers: Sequence[Document]) -> list[Document]:
    """Return the tiers that no other one of them needs."""
    needed = {key for tier in tiers for key in _needs(tier)}
    return [tier for tier in tiers if key_of(tier) not in needed]


def _needs(tier: Document) -> Iterator[tuple[str, str]]:
    (namespace, name), spec = key_of(tier), access.mapping(tier, "spec")
    drafted = tier_plan.draft(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(drafted, TierPlan):
        yield from ((need.namespace, need.object_name) for need in drafted.needs)


class _Metadata(ApiModel):
    """What the API server demands of a tier's metadata; Crossplane limits the name of an XR."""

    name: Annotated[f.DnsName, f.text(most=63)]
    namespace: f.DnsLabel
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def wrong_identity(tier: Document) -> tuple[str, ...]:
    """Return what is wrong with a tier's apiVersion and metadata."""
    if tier.get("apiVersion") != API_VERSION:
        return (f"apiVersion: is {tier.get('apiVersion')}, expected {API_VERSION}",)
    metadata = access.mapping(tier, "metadata")
    known: Document = {k: metadata[k] for k in ("name", "namespace") if k in metadata}
    for key in ("labels", "annotations"):  # where null is an empty string
        values = access.mapping(metadata, key).items()
        known[key] = {name: value for name, value in values if value is not None}
    return tuple(map(str, parse(_Metadata, known, "metadata")[1]))


def key_of(tier: Document) -> tuple[str, str]:
    _, namespace, name = access.named(tier)
    return namespace, name


def plan_of(document: Document, file: str, given: Sequence[Document]) -> tuple[TierPlan, list[str]]:
    """Return the tier's plan and notes; a fleet's plan is that of a child on any cluster."""
    if document.get("kind") != "KVOffloadTier":
        raise InputError(f"{file}: kind is {document.get('kind')}, expected KVOffloadTier")
    if wrong := wrong_identity(document):
        raise InputError(f"{file}: {'; '.join(wrong)}")
    (namespace, name), spec = key_of(document), access.mapping(document, "spec")
    if not spec.get("clusterSelector"):
        return planned_as(namespace, name, spec, file, given, quarantine.numbers(document)), []
    planned_as(namespace, name, spec, file, given)
    child = {**stamped(spec), "inferenceClusterRef": {"name": "any"}}
    note = "a fleet tier: addresses differ on each cluster"
    return planned_as(namespace, name, child, file, given), [note]


def planned_as(
    namespace: str,
    name: str,
    spec: Document,
    file: str,
    given: Sequence[Document] = (),
    quarantined: Mapping[ModelName, int] | None = None,
) -> TierPlan:
    identity = (namespace, name, spec, encode(spec), BACKENDS)
    drafted = tier_plan.draft(*identity)
    needed: dict[str, Document] = {}
    for need in drafted.needs if isinstance(drafted, TierPlan) else ():
        wanted = (need.namespace, need.object_name)
        found = next((tier for tier in given if key_of(tier) == wanted), None)
        if found is None:
            what = f"{need.kind} {need.namespace}/{need.object_name}"
            raise MissingTier(f"{file}: {need.path}: {what} is missing: add it to the same file")
        needed[need.name] = found
    planned = tier_plan.plan(*identity, needed, quarantined)
    if isinstance(planned, tier_plan.InvalidTier):
        lines = "\n".join(f"  {problem}" for problem in planned.problems)
        raise InputError(f"{file}: the tier is not valid:\n{lines}")
    return planned
