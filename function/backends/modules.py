"""Modules of ours that engines import from their pods (programs/).

A name carries a digest of the text, so that a pod that needs another text imports another module.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

import programs
from function.contract.engine import Engine
from function.contract.injection import Json
from function.kube.naming import digest
from function.names import MODULE_PREFIX

SEARCH_PATHS = frozenset({"PYTHONPATH"})
# SHA-256 of texts of earlier releases that records still name.
_RELEASED: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """A module and the name by which the engine imports it."""

    name: str
    text: str

    @property
    def files(self) -> dict[str, str]:
        return {f"{self.name}.py": self.text}

    def plugin(self, entry: str) -> dict[str, str]:
        """Return the files of a distribution that SGLang loads: its entry point is `register`."""
        home = f"{self.name}.dist-info"
        return self.files | {
            f"{home}/METADATA": f"Metadata-Version: 2.1\nName: {self.name}\nVersion: 1\n",
            f"{home}/entry_points.txt": f"[sglang.srt.plugins]\n{entry} = {self.name}:register\n",
        }


def mounted(files: dict[str, str], path: str) -> Json:
    """Return the fields of an Injection that mount files at `path`, where Python imports them."""
    search_paths = dict.fromkeys(SEARCH_PATHS, path)
    return {"files": files, "files_path": path, "search_paths": search_paths}


@cache
def module(name: str, path: str) -> Module:
    """Return the module made of programs/`path`."""
    text = programs.module(path)
    return Module(f"{MODULE_PREFIX}{name}_{digest(text, length=8)}", text)


def digests(texts: Iterable[str]) -> frozenset[str]:
    """Return the SHA-256 of these texts, and of every text that pods were ever given."""
    return frozenset((*_RELEASED, *(sha256(text.encode()).hexdigest() for text in texts)))


def plugins_without(name: str, engine: Engine) -> str | None:
    """Return the pod's list of SGLang's plugins, if it has one and `name` is not in it."""
    plugins = engine.env.get("SGLANG_PLUGINS")
    return plugins if plugins and name not in map(str.strip, plugins.split(",")) else None
