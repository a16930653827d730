"""Read YAML as Crossplane does; errors name the file, the line and the field.

A path is a file of one or more documents, or a directory whose `.yaml` and `.yml` files are read in
the order of their names, without its subdirectories (as `crossplane composition render` does).
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from function.kube import yamls
from kv_offload.render import scalars

Document = dict[str, Any]

if TYPE_CHECKING:
    from yaml import SafeLoader as _Base
else:
    _Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CONVERTED = {f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null")}
_STRING, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class InputError(Exception):
    """An input that cannot be used; the message names the file, the place and what to do."""


class _Loader(_Base):
    """Kubernetes' reading of YAML (`scalars`); a key stands once, and is a string."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value):
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if key.tag in _CONVERTED:
                key.value = _key(self.yaml_constructors[key.tag](self, key))
                key.tag = _STRING
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _key(key: Any) -> str:
    """Return a key as a string: Kubernetes reads `yes: 1` as `{"true": 1}`."""
    return "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)


_Loader.yaml_implicit_resolvers = scalars.RESOLVERS
_Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)
_Loader.add_constructor(
    "tag:yaml.org,2002:bool", lambda loader, node: node.value.lower() in scalars.TRUE
)


def parse(text: str, name: str) -> list[Document]:
    """Return the non-empty documents of a YAML stream. `name` is used in errors."""
    try:
        yamls.check(text)
        loaded = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InputError(f"{name}{place}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{name}: not valid YAML: {error}") from error
    documents = []
    for number, document in enumerate(loaded, start=1):
        if document is None:
            continue
        if not isinstance(document, dict):
            kind = type(document).__name__
            raise InputError(f"{name}: document {number} is a {kind}, not a Kubernetes object")
        try:
            json.dumps(document, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{name}: document {number} cannot be JSON: {error}") from error
        documents.append(document)
    return documents


def read_text(path: Path) -> str:
    """Return the text of a file, or of the standard input for `-`."""
    try:
        if str(path) == "-":  # whatever the locale's encoding is
            return sys.stdin.buffer.read().decode()
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text") from error


def load(path: Path) -> list[Document]:
    """Return the documents of a file, or of the YAML files of a directory, all objects."""
    if path.is_dir():
        names = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml"))
        if not names:
            raise InputError(f"{path}: no .yaml or .yml file in this directory")
        return [document for name in names for document in load(name)]
    documents = parse(read_text(path), str(path))
    for number, document in enumerate(documents, start=1):
        _check_object(document, f"{path}: document {number}")
    return documents


def containing(path: Path, word: str) -> list[Path]:
    """Return the path itself, or the YAML files below a directory that contain the word.

    The others are not parsed: a repository holds templates and values that are no objects. Hidden
    folders and files, and links to directories, are skipped.
    """
    if not path.is_dir():
        return [path]
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (Path(folder, name) for name in sorted(names) if not name.startswith("."))
        found += [f for f in files if f.suffix in (".yaml", ".yml") and _may_hold(f, word)]
    return found


def _may_hold(path: Path, word: str) -> bool:
    """Return whether a file holds the word; an unreadable one is reported where it is loaded."""
    try:
        return word.encode() in path.read_bytes()
    except OSError:
        return True


def load_items(path: Path) -> list[Document]:
    """Load documents as `load` does, with Lists (`kubectl get -o yaml`) opened."""
    return open_lists(load(path), str(path))


def open_lists(documents: Iterable[Document], name: str) -> list[Document]:
    """Return documents with the items of Lists in their place. `name` is used in errors."""
    opened = []
    for document in documents:
        items = document.get("items")
        if document["kind"].endswith("List") and isinstance(items, list):
            for number, item in enumerate(items, start=1):
                if not isinstance(item, dict):
                    raise InputError(f"{name}: items[{number - 1}] is no object")
                _check_object(item, f"{name}: items[{number - 1}]")
            opened += open_lists(items, name)
        else:
            opened.append(document)
    return opened


def load_all(paths: Iterable[Path]) -> list[Document]:
    """Return the documents of all paths, with Lists opened."""
    return [document for path in paths for document in load_items(path)]


def load_one(path: Path, what: str) -> Document:
    """Return the only document of a file or of the List in it. `what` names it in the error."""
    documents = load_items(path)
    if len(documents) != 1:
        raise InputError(f"{path}: {len(documents)} documents, expected one {what}")
    return documents[0]


def load_schemas(path: Path) -> list[Document]:
    """Return OpenAPI v3 documents: the .json files below a directory."""
    if not path.is_dir():
        raise InputError(f"{path}: not a directory of OpenAPI v3 documents (.json)")
    names = sorted(path.rglob("*.json"))
    if not names:
        raise InputError(f"{path}: no .json file in this directory")
    documents = []
    for name in names:
        try:
            document = json.loads(read_text(name))
        except json.JSONDecodeError as error:
            raise InputError(f"{name}:{error.lineno}: not valid JSON: {error.msg}") from error
        if not isinstance(document, dict):
            raise InputError(f"{name}: not an OpenAPI v3 document")
        documents.append(document)
    return documents


def _check_object(document: Document, place: str) -> None:
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise InputError(f"{place}: {field} is missing")
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InputError(f"{place}: metadata must be an object")
    for field in ("annotations", "labels"):
        if not isinstance((metadata or {}).get(field) or {}, dict):
            raise InputError(f"{place}: metadata.{field} must be an object")
