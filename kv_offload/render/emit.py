"""Write documents as canonical YAML or JSON: our output and Crossplane's alike.

Two streams are equal when they hold the same documents in the same order with the same values. The
emitter removes what carries no meaning: the order of keys, quoting, line folding, whether a whole
number came as `3` or `3.0` (protobuf Structs have only floats), and the order of Result documents,
which Crossplane's CLI prints in the random order of a Go map.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from kv_offload.render import scalars

Document = dict[str, Any]

# Whole numbers beyond this are no longer exact as floats and stay as they are.
_EXACT = 2**53
# Line breaks that YAML 1.1 folds and JSON keeps.
_UNUSUAL_BREAK = re.compile("[\r\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Block style, lists not indented, no aliases: as Kubernetes people write."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# Quoted: what Kubernetes, or another reader of YAML 1.1, would not take for a string.
_Dumper.yaml_implicit_resolvers = {
    first: scalars.RESOLVERS.get(first, []) + yaml.SafeDumper.yaml_implicit_resolvers.get(first, [])
    for first in scalars.RESOLVERS | yaml.SafeDumper.yaml_implicit_resolvers
}


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = '"' if _UNUSUAL_BREAK.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def plain(value: Any) -> Any:
    """Return the value with whole floats as integers and keys as strings, everywhere."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value


def canonical(documents: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Return the documents in canonical values and order: Results last, sorted."""
    values = [plain(document) for document in documents]
    results = sorted((v for v in values if _is_result(v)), key=_sort_key)
    return [value for value in values if not _is_result(value)] + results


def to_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return a YAML stream, each document after `---`; "" for no documents."""
    return "".join(
        "---\n"
        + yaml.dump(
            document, Dumper=_Dumper, width=2**31, allow_unicode=True, default_flow_style=False
        )
        for document in canonical(documents)
    )


def to_json(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return one `v1 List` with the documents as items, indented, keys sorted."""
    items = {"apiVersion": "v1", "kind": "List", "items": canonical(documents)}
    return json.dumps(items, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _is_result(document: Mapping[str, Any]) -> bool:
    kind = (document.get("apiVersion"), document.get("kind"))
    return kind == ("render.crossplane.io/v1beta1", "Result")


def _sort_key(document: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(document.get(name, "")) for name in ("severity", "reason", "message"))
