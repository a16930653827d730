"""Whom a tier admits: the namespaces whose consumers it serves, and whose Usages it counts."""

from collections.abc import Mapping
from typing import Any

from function.kube import access


def admits(tier: Mapping[str, Any], namespace: str) -> bool:
    """Whether a KVOffloadTier serves consumers in `namespace`; "" is a cluster-scoped consumer's,
    which only a tier open to all admits.
    """
    allowed = access.mapping(tier, "spec", "allowedNamespaces")
    source = allowed.get("from", "Same")
    if source == "Names":
        listed = allowed.get("names")
        return isinstance(listed, list) and namespace in listed
    return source == "All" or namespace == access.text(tier, "metadata", "namespace")


def admitted(tier: Mapping[str, Any], usages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The Usages that count: in namespaces that the tier admits, and beside the tier, where those
    of tiers that need it are. Anyone may write a Usage of anything in a namespace of his own, and
    must neither be counted nor get in anybody's way by it.

    A namespace that is closed while engines of it run counts until it has no Usage any more: they
    run on, and `status.usedBy`, which we alone write, knows them.
    """
    served = {
        access.text(tier, "metadata", "namespace"),
        *(access.text(user, "namespace") for user in access.objects(tier, "status", "usedBy")),
    } - {""}
    places = [(usage, access.text(usage, "metadata", "namespace")) for usage in usages]
    return [usage for usage, place in places if place in served or admits(tier, place)]
