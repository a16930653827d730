"""The cluster that a render sees: documents by kind, namespace and name, and nothing else.

Mirrors the in-memory client of Crossplane core 2.4.0 (`internal/render/client.go`) and its fetchers
(`internal/xfn/required_resources.go`): by name is an exact match of version and namespace; by label
or by kind lists every namespace when none is named, ordered by namespace and name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from function.kube import access

Document = dict[str, Any]
Key = tuple[str, str, str, str]


def key_of(document: Mapping[str, Any]) -> Key:
    """Return (apiVersion, kind, namespace, name); "" for what is no string."""
    return access.text(document, "apiVersion"), *access.named(document)


class Store:
    """Documents that can be read by requirements; a later document of the same key wins."""

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self._documents: dict[Key, Document] = {}
        for document in documents:
            self.put(document)

    def put(self, document: Document) -> None:
        self._documents[key_of(document)] = document

    def get(self, key: Key) -> Document | None:
        return self._documents.get(key)

    def select(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]
    ) -> list[Document]:
        """Return all of a kind with these labels; an empty namespace means every namespace."""

        def matches(key: Key, document: Document) -> bool:
            own = (document.get("metadata") or {}).get("labels") or {}
            return (
                key[:2] == (api_version, kind)
                and namespace in ("", key[2])
                and all(own.get(name) == value for name, value in labels.items())
            )

        matching = [(key, doc) for key, doc in self._documents.items() if matches(key, doc)]
        return [doc for _, doc in sorted(matching, key=lambda item: f"{item[0][2]}/{item[0][3]}")]
