"""CA certificates of a TrustBundle, as a file in an engine's pod."""

from function.api.trust import TrustBundle
from function.contract.injection import Json

_FILE = "ca.crt"


def volume(bundle: TrustBundle, name: str) -> Json:
    """Return a volume of the bundle's key."""
    items = [{"key": bundle.key, "path": _FILE}]
    return {"name": name, "configMap": {"name": bundle.name, "items": items}}


def path(mounted: str) -> str:
    """Return the path of the file below the mount path."""
    return f"{mounted}/{_FILE}"
