"""Return the module of programs/lmcache/`program`.py."""

from function.backends import modules
from function.backends.modules import Module
from function.names import MODULE_PREFIX

PATH = "/etc/kv-offload/lmcache"
IDENTITY = "kv_offload.identity"  # the key of kv_connector_extra_config that the classes read
MP_CONNECTOR, V1_CONNECTOR, SGLANG_CACHE = "mp_connector", "v1_connector", "sglang_cache"
# SGLang's name of the plugin and of the cache (NAME and IDENTITY of sglang_cache.py).
SGLANG_NAME = "kv-offload-lmcache"
SGLANG_IDENTITY = "KV_OFFLOAD_IDENTITY"
PREFIX = f"{MODULE_PREFIX}lmcache"


def module(program: str) -> Module:
    """Return the module made of programs/lmcache/`program`.py."""
    return modules.module(f"lmcache_{program}", f"lmcache/{program}.py")


def sglang_plugin() -> dict[str, str]:
    """Return the files by which SGLang loads our cache."""
    return module(SGLANG_CACHE).plugin(SGLANG_NAME)


_TEXTS = (module(MP_CONNECTOR).text, module(V1_CONNECTOR).text, *sglang_plugin().values())
DIGESTS = modules.digests(_TEXTS)
