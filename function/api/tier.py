"""KVOffloadTier: what a platform team declares."""

from function.api.base import ApiModel


class KVOffloadTierSpec(ApiModel):
    """Placeholder shape while the module is being written (see design section 2)."""

    namespace: str = "kv-offload-system"
