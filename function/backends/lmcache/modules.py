"""Return the module of programs/lmcache/`program`.py."""

from dataclasses import dataclass
from functools import cache
from hashlib import sha256

import programs
from function.contract.injection import Json
from function.kube.naming import digest
from function.names import MODULE_PREFIX

PATH = "/etc/kv-offload/lmcache"
IDENTITY = "kv_offload.identity"  # the key of kv_connector_extra_config that the classes read
MP_CONNECTOR, V1_CONNECTOR = "mp_connector", "v1_connector"
SGLANG_CACHE = "sglang_cache"
# SGLang's name of the plugin and of the cache (NAME and IDENTITY of sglang_cache.py).
SGLANG_NAME = "kv-offload-lmcache"
SGLANG_IDENTITY = "KV_OFFLOAD_IDENTITY"
# SHA-256 of texts of earlier releases that records still name.
_RELEASED: tuple[str, ...] = ()
PREFIX = f"{MODULE_PREFIX}lmcache"


@dataclass(frozen=True)
class Module:
    """A module and the name by which the engine imports it.

    The name carries a digest of `text`, so that a pod that needs another text imports another
    module.
    """

    name: str
    text: str

    @property
    def files(self) -> dict[str, str]:
        return {f"{self.name}.py": self.text}

    def plugin(self, group: str, entry: str) -> dict[str, str]:
        """Return the files of a distribution whose entry point is `register`."""
        home = f"{self.name}.dist-info"
        return self.files | {
            f"{home}/METADATA": f"Metadata-Version: 2.1\nName: {self.name}\nVersion: 1\n",
            f"{home}/entry_points.txt": f"[{group}]\n{entry} = {self.name}:register\n",
        }


@cache
def module(program: str) -> Module:
    """Return the module made of programs/lmcache/`program`.py."""
    text = programs.text(f"lmcache/{program}.py")
    return Module(f"{PREFIX}_{program}_{digest(text, length=8)}", text)


def sglang_plugin() -> dict[str, str]:
    """Return the files by which SGLang loads our cache."""
    return module(SGLANG_CACHE).plugin("sglang.srt.plugins", SGLANG_NAME)


def digests() -> frozenset[str]:
    """Return the SHA-256 of every program text that pods were ever given."""
    texts = [module(name).text for name in (MP_CONNECTOR, V1_CONNECTOR)]
    texts += sglang_plugin().values()
    return frozenset((*_RELEASED, *(sha256(text.encode()).hexdigest() for text in texts)))


def search_path() -> Json:
    """Return the variable by which Python finds the modules, appended to the pod's."""
    return {"PYTHONPATH": PATH}
