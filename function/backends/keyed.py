"""vLLM's connectors with a digest of what the engine resolved in their keys (programs/vllm).

Composition sees flags, environment and where weights lie. The engine knows the dtype behind `auto`,
the layout, the rope factors and the weights themselves. Both stand in the key.
"""

from function.backends import modules
from function.contract.injection import Json
from function.names import MODULE_PREFIX

PREFIX = f"{MODULE_PREFIX}vllm_"
MODULE = modules.module("vllm", "vllm/keyed_connectors.py")
DIGESTS = modules.digests([MODULE.text])


def keyed(connector: Json) -> Json:
    """Return the connector with our class in the place of upstream's."""
    name = {"kv_connector": connector["kv_connector"], "kv_connector_module_path": MODULE.name}
    return name | connector
