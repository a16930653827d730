"""The ResourceList that kustomize and kpt exchange with KRM functions."""

from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]

_KIND = ("config.kubernetes.io/v1", "ResourceList")


def is_one(documents: Sequence[Document]) -> bool:
    """Return whether a stream holds a ResourceList and nothing else."""
    kinds = [(each.get("apiVersion"), each.get("kind")) for each in documents]
    return kinds == [_KIND]


def function_config(resource_list: Document, kind: str) -> Document:
    """Return a ResourceList's functionConfig of this kind, {} for any other."""
    found = resource_list.get("functionConfig")
    return found if isinstance(found, dict) and found.get("kind") == kind else {}


def with_items(resource_list: Document, made: Sequence[Document]) -> Document:
    """Return the ResourceList with other items."""
    return {**resource_list, "items": list(made)}
