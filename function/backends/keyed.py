"""vLLM's connectors with a digest of what the engine resolved in their keys (programs/vllm).

Composition sees flags, environment and where weights lie. The engine knows the dtype behind `auto`,
the layout, the rope factors and the weights themselves. Both stand in the key.
"""

from functools import cache
from hashlib import sha256

import programs
from function.contract.injection import Json
from function.kube.naming import digest
from function.names import MODULE_PREFIX

PREFIX = f"{MODULE_PREFIX}vllm_"
SEARCH_PATHS = frozenset({"PYTHONPATH"})
# SHA-256 of texts of earlier releases that records still name.
_RELEASED: tuple[str, ...] = ()


@cache
def _module() -> tuple[str, str]:
    """Return the module's name and text. A pod that needs another text imports another module."""
    text = programs.text("vllm/keyed_connectors.py")
    return f"{PREFIX}{digest(text, length=8)}", text


def digests() -> frozenset[str]:
    """Return the SHA-256 of every text that pods were ever given."""
    return frozenset((*_RELEASED, sha256(_module()[1].encode()).hexdigest()))


def keyed(connector: Json) -> Json:
    """Return the connector with our class in the place of upstream's."""
    name = {"kv_connector": connector["kv_connector"], "kv_connector_module_path": _module()[0]}
    return name | connector


def files(path: str) -> Json:
    """Return the fields of an Injection that bring the module, mounted at `path`."""
    name, text = _module()
    return {
        "files": {f"{name}.py": text},
        "files_path": path,
        "search_paths": dict.fromkeys(SEARCH_PATHS, path),
    }
