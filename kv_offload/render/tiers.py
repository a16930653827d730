"""Tiers in files: which there are, what they need of each other, and their plans."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from function.backends.registry import BACKENDS
from function.composers import quarantine, tier_plan
from function.composers.tier_plan import TierPlan
from function.contract.backend import ModelName
from function.edge.structs import encode
from function.kube import access
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
    metadata, spec = tier.get("metadata") or {}, tier.get("spec") or {}
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    drafted = tier_plan.draft(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(drafted, TierPlan):
        yield from ((need.namespace, need.object_name) for need in drafted.needs)


def key_of(tier: Document) -> tuple[str, str]:
    metadata = tier.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def plan_of(document: Document, file: str, given: Sequence[Document]) -> tuple[TierPlan, list[str]]:
    """Return the tier's plan and notes; a fleet's plan is that of a child on any cluster."""
    if document.get("kind") != "KVOffloadTier":
        raise InputError(f"{file}: kind is {document.get('kind')}, expected KVOffloadTier")
    spec = access.mapping(document, "spec")
    _, namespace, name = access.named(document)
    if not namespace or not name:
        raise InputError(f"{file}: set metadata.name and metadata.namespace")
    if not spec.get("clusterSelector"):
        return planned_as(namespace, name, spec, file, given, quarantine.numbers(document)), []
    planned_as(namespace, name, spec, file, given)
    child = {k: v for k, v in spec.items() if k != "clusterSelector"}
    child["inferenceClusterRef"] = {"name": "any"}
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
