"""Decide which namespaces a tier serves, and whose Usages it counts."""

from collections.abc import Mapping
from typing import Any

from function.composers import usage
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


def users_status(tier: Mapping[str, Any], counted: list[Json]) -> Json:
    """Return what a tier's status says of its users; it changes seldom.

    Core 2.4 calls every consumer at each change. The Usages themselves list the users.

    `counted`: the Usages that count. Where more closed namespaces are in use than the status may
    hold, the Usages of every namespace count until they fit.
    """
    before = access.mapping(tier, "status").get("consumers")
    number = {"consumers": usage.step({usage.user(each) for each in counted}, before)}
    home = access.text(tier, "metadata", "namespace")
    places = {access.text(each, "metadata", "namespace") for each in counted}
    closed = sorted(place for place in places - {home, ""} if not admits(tier, place))
    if len(closed) > MAX_CLOSED:
        return number | {"allowedNamespaces": {"from": "All"}, "closedNamespaces": []}
    allowed = access.mapping(tier, "spec", "allowedNamespaces")
    kept = {key: allowed[key] for key in ("from", "names") if key in allowed} or {"from": "Same"}
    return number | {"allowedNamespaces": kept, "closedNamespaces": closed}
