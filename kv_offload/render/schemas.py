"""Look up schemas that functions require in OpenAPI v3 documents.

The documents are what `kubectl get --raw /openapi/v3/apis/GROUP/VERSION` prints. As in core 2.4.0
(`internal/xfn/required_schemas.go`): found by `x-kubernetes-group-version-kind`, with references
inlined, and an empty answer where nothing matches.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_REF = "#/components/schemas/"
_GVK = "x-kubernetes-group-version-kind"


class Schemas:
    """A lookup by apiVersion and kind over OpenAPI v3 documents."""

    def __init__(self, documents: Iterable[Mapping[str, Any]] = ()) -> None:
        self._groups: dict[tuple[str, str], Mapping[str, Any]] = {}
        for document in documents:
            schemas = (document.get("components") or {}).get("schemas") or {}
            for schema in schemas.values():
                for gvk in schema.get(_GVK) or ():
                    self._groups.setdefault((gvk["group"], gvk["version"]), schemas)

    def find(self, api_version: str, kind: str) -> dict[str, Any] | None:
        """Return the schema of a kind with every reference inlined, or None."""
        group, _, version = api_version.rpartition("/")
        schemas = self._groups.get((group, version), {})
        gvk = [{"group": group, "version": version, "kind": kind}]
        for schema in schemas.values():
            if schema.get(_GVK) == gvk:
                inlined: dict[str, Any] = _inline(schema, schemas)
                return inlined
        return None


def _inline(node: Any, schemas: Mapping[str, Any], seen: tuple[str, ...] = ()) -> Any:
    if isinstance(node, list):
        return [_inline(item, schemas, seen) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix(_REF)
        if name in seen or name not in schemas:
            return dict(node)
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        return _inline(schemas[name], schemas, (*seen, name)) | siblings
    return {key: _inline(value, schemas, seen) for key, value in node.items()}
