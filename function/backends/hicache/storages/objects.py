"""Storage `nixl` with OBJ: one object per page; its keys hold no identity."""

from function.api.base import present
from function.backends import access_keys, trust
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.hierarchy import Storage
from function.contract.engine import Engine
from function.contract.injection import Json

_VOLUME = "kv-offload-trust"


def storage(tier: Tier, _: Engine) -> Storage:
    """Return the storage, with credentials in the environment.

    NIXL's plugin reads AWS's usual names. Its parameters are strings; it does not accept `True`.
    """
    settings = present(present(present(tier.settings.storage).nixl).obj)
    plugin: Json = {
        "active": True,
        "bucket": settings.bucket,
        "region": settings.region,
        "scheme": settings.scheme,
        "use_virtual_addressing": "true" if settings.virtual_addressing else "false",
    }
    if settings.endpoint is not None:
        plugin["endpoint_override"] = endpoint(tier)
    pod: Json = {}
    if settings.credentials is not None:
        pod["env"] = access_keys.env(settings.credentials)
    if settings.ca_config_map is not None:
        plugin["ca_bundle"] = trust.path(facts.TRUST)
        pod["volumes"] = (trust.volume(settings.ca_config_map, _VOLUME),)
        pod["mounts"] = ({"name": _VOLUME, "mountPath": facts.TRUST},)
    return Storage("nixl", {"plugin": {"obj": plugin}}, pod)


def endpoint(tier: Tier) -> str:
    """Return the store's address, by default AWS's endpoint of the region."""
    settings = present(present(present(tier.settings.storage).nixl).obj)
    host = settings.endpoint or f"s3.{settings.region}.amazonaws.com"
    return f"{settings.scheme}://{host}:{settings.port}"
