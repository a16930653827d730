"""Certificates that an engine is to trust, as a file in its pod."""

from function.api.trust import TrustBundle
from function.contract.injection import Json

_FILE = "ca.crt"


def volume(bundle: TrustBundle, name: str) -> Json:
    """The volume of that name, of the bundle's one key."""
    items = [{"key": bundle.key, "path": _FILE}]
    return {"name": name, "configMap": {"name": bundle.name, "items": items}}


def path(mounted: str) -> str:
    """The file, where the volume is mounted there."""
    return f"{mounted}/{_FILE}"
