"""The ResourceList that kustomize and kpt exchange with KRM functions."""

from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]

_GROUP, _KIND = "config.kubernetes.io/", "ResourceList"


def is_one(documents: Sequence[Document]) -> bool:
    """Return whether a stream holds a ResourceList and nothing else."""
    return [each["kind"] for each in documents] == [_KIND] and str(
        documents[0]["apiVersion"]
    ).startswith(_GROUP)


def items(resource_list: Document) -> list[Document]:
    """Return a ResourceList as the list that `files.open_lists` opens, [] without items."""
    return [{**resource_list, "items": resource_list.get("items") or []}]


def function_config(resource_list: Document, kind: str) -> Document:
    """Return a ResourceList's functionConfig of this kind, {} for any other."""
    found = resource_list.get("functionConfig")
    return found if isinstance(found, dict) and found.get("kind") == kind else {}


def with_items(resource_list: Document, made: Sequence[Document]) -> Document:
    """Return the ResourceList with other items."""
    return {**resource_list, "items": list(made)}
