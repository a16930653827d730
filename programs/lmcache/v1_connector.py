"""LMCache inside vLLM, with what stands behind a model's name in the key of its blocks.

Upstream's key is tokens, model argument, rank and dtype: models at one path read each other's
blocks. From function-kv-offload, for LMCache 0.4.4 to 0.5.6; docs/identity.md says what is in it.
"""

from lmcache.integration.vllm import vllm_v1_adapter
from vllm.distributed.kv_transfer.kv_connector.v1 import lmcache_connector as upstream

from .key_suffix import key_suffix


class LMCacheConnectorV1(upstream.LMCacheConnectorV1):
    def __init__(self, vllm_config, role, kv_cache_config=None):
        suffix, named = key_suffix(vllm_config, role, kv_cache_config), []
        original = vllm_v1_adapter.VllmServiceFactory

        class Factory(original):
            def get_or_create_metadata(self):
                metadata = super().get_or_create_metadata()
                if metadata is not None and not metadata.model_name.endswith(suffix):
                    metadata.model_name += suffix
                    named.append(metadata)
                return metadata

        vllm_v1_adapter.VllmServiceFactory = Factory
        try:
            super().__init__(vllm_config, role, kv_cache_config)
        finally:
            vllm_v1_adapter.VllmServiceFactory = original
        if not named:
            raise RuntimeError(
                "LMCache in this image names its model in another way than 0.4.4 to 0.5.6 do, and "
                "without the cache identity in the key models would read each other's blocks. Use "
                "an image with LMCache 0.5.6, or newer where function-kv-offload knows it."
            )
