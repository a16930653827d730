"""The backends that a tier can name; the tier's schema is derived from them.

The key is the value of `spec.backend`; the field of the settings object is the key in lower case.
"""

from function.api.base import ApiModel
from function.api.hicache import HiCacheSpec
from function.api.lmcache import LMCacheSpec
from function.api.mooncake import MooncakeSpec
from function.api.native import NativeSpec
from function.api.nixl import NIXLSpec

SPECS: dict[str, type[ApiModel]] = {
    "LMCache": LMCacheSpec,
    "Mooncake": MooncakeSpec,
    "HiCache": HiCacheSpec,
    "Native": NativeSpec,
    "NIXL": NIXLSpec,
}


def field_name(backend: str) -> str:
    """Return the name of a backend's settings object in a tier's spec."""
    return backend.lower()
