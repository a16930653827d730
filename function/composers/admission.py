"""Decide which namespaces a tier serves, and whose Usages it counts."""

from collections.abc import Mapping
from typing import Any

from function.kube import access
from function.kube.access import Json

# The most entries of `status.closedNamespaces` (the XRD's own limit).
MAX_CLOSED = 256
_COMPOSED = ("spec", "crossplane", "resourceRefs")


def admits(tier: Mapping[str, Any], namespace: str, where: str = "spec") -> bool:
    """Return whether a KVOffloadTier serves consumers in `namespace`.

    "" is a cluster-scoped consumer's, which only a tier open to all admits. `where`: "status" for
    whom it admitted at the last call.
    """
    allowed = access.mapping(tier, where, "allowedNamespaces")
    source = allowed.get("from", "Same")
    if source == "Names":
        listed = allowed.get("names")
        return isinstance(listed, list) and namespace in listed
    return source == "All" or namespace == access.text(tier, "metadata", "namespace")


def admitted(tier: Mapping[str, Any], usages: list[Json]) -> list[Json]:
    """Return the Usages that count: of namespaces that the tier admits.

    Also those beside the tier, where cluster-scoped consumers put theirs, and of namespaces whose
    consumers came before the tier stopped admitting them: their engines still run. The status says
    whom it admitted at the last call, and which closed namespaces were in use then. Where it does
    not, although the tier has composed something (a restored tier, an older release's), all count.
    """
    status = access.mapping(tier, "status")
    if "allowedNamespaces" not in status and access.objects(tier, *_COMPOSED):
        return usages
    closed = status.get("closedNamespaces") or ()
    served = {access.text(tier, "metadata", "namespace"), *closed} - {""}

    def counts(place: str) -> bool:
        return place in served or admits(tier, place) or admits(tier, place, "status")

    return [each for each in usages if counts(access.text(each, "metadata", "namespace"))]


def is_settled(tier: Mapping[str, Any]) -> bool:
    """Return whether the status says whom the tier admits, and no closed namespace uses it.

    Then nothing depends on who its users are. A tier that has composed nothing has none.
    """
    status = access.mapping(tier, "status")
    if "allowedNamespaces" not in status:
        return not access.objects(tier, *_COMPOSED)
    return _allowed(tier, "status") == _allowed(tier) and not status.get("closedNamespaces")


def is_judged(tier: Mapping[str, Any], namespace: str) -> bool:
    """Return whether the tier itself has seen that its spec admits `namespace`.

    A tier counts only Usages of namespaces that it has admitted. Where its spec is opened and
    closed again between two of its calls, it would not know of who came meanwhile.
    """
    known = "allowedNamespaces" in access.mapping(tier, "status")
    return not known or admits(tier, namespace, "status")


def users_status(tier: Mapping[str, Any], counted: list[Json]) -> Json:
    """Return what a tier's status says of the namespaces of its users.

    `counted`: the Usages that count, [] where nothing depends on them. Where more closed namespaces
    are in use than the status may hold, the Usages of every namespace count until they fit.
    """
    closed = closed_namespaces(tier, counted)
    if len(closed) > MAX_CLOSED:
        return {"allowedNamespaces": {"from": "All"}, "closedNamespaces": []}
    return {"allowedNamespaces": _allowed(tier), "closedNamespaces": closed}


def closed_namespaces(tier: Mapping[str, Any], counted: list[Json]) -> list[str]:
    """Return the namespaces that use the tier and are admitted no longer."""
    home = access.text(tier, "metadata", "namespace")
    places = {access.text(each, "metadata", "namespace") for each in counted}
    return sorted(place for place in places - {home, ""} if not admits(tier, place))


def _allowed(tier: Mapping[str, Any], where: str = "spec") -> Json:
    allowed = access.mapping(tier, where, "allowedNamespaces")
    kept = {key: allowed[key] for key in ("from", "names") if allowed.get(key)}
    return kept or {"from": "Same"}
