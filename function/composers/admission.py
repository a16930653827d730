"""Decide which namespaces a tier serves, and whose Usages it counts."""

from collections.abc import Mapping
from typing import Any

from function.kube import access
from function.kube.access import Json


def admits(tier: Mapping[str, Any], namespace: str) -> bool:
    """Return whether a KVOffloadTier serves consumers in `namespace`.

    "" is a cluster-scoped consumer's, which only a tier open to all admits.
    """
    allowed = access.mapping(tier, "spec", "allowedNamespaces")
    source = allowed.get("from", "Same")
    if source == "Names":
        listed = allowed.get("names")
        return isinstance(listed, list) and namespace in listed
    return source == "All" or namespace == access.text(tier, "metadata", "namespace")


def admitted(tier: Mapping[str, Any], usages: list[Json]) -> list[Json]:
    """Return the Usages that count: of namespaces that the tier admits.

    Also those beside the tier, where cluster-scoped consumers put theirs, and of namespaces whose
    consumers came before the tier stopped admitting them: their engines still run.
    """
    served = {
        access.text(tier, "metadata", "namespace"),
        *(access.text(user, "namespace") for user in access.objects(tier, "status", "usedBy")),
    } - {""}
    places = [(usage, access.text(usage, "metadata", "namespace")) for usage in usages]
    return [usage for usage, place in places if place in served or admits(tier, place)]
