"""What a pod claims by DRA: the DeviceClasses behind its container's claims."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from function.kube import access
from function.kube.access import Json

KIND = "ResourceClaimTemplate"


@dataclass(frozen=True)
class Claims:
    """The ResourceClaimTemplates that can be seen: (namespace, name, its DeviceClasses) of each.

    A template says its classes in `spec.spec.devices.requests`, each in `exactly`, in one of
    `firstAvailable`, or itself (resource.k8s.io before v1).
    """

    seen: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    @classmethod
    def among(cls, manifests: Iterable[Json]) -> Self:
        """Return the templates among the manifests."""
        return cls(
            tuple(
                (_namespace(each), access.text(each, "metadata", "name"), tuple(_classes(each)))
                for each in manifests
                if each.get("kind") == KIND
            )
        )

    def of_container(self, namespace: str, pod: Json, container: Json) -> tuple[str, ...]:
        """Return the DeviceClasses of a container, in the order of its claims.

        `namespace`: of the pod. A claim without a visible template is left out.
        """
        templates = {
            access.text(each, "name"): access.text(each, "resourceClaimTemplateName")
            for each in access.objects(pod, "resourceClaims")
        }
        named = (access.text(c, "name") for c in access.objects(container, "resources", "claims"))
        return tuple(
            found
            for name in named
            for found in self._by_name.get((namespace, templates.get(name, "")), ())
        )

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], tuple[str, ...]]:
        return {(namespace, name): classes for namespace, name, classes in self.seen}


def _namespace(template: Json) -> str:
    return access.text(template, "metadata", "namespace") or "default"


def _classes(template: Json) -> Iterable[str]:
    for request in access.objects(template, "spec", "spec", "devices", "requests"):
        one_of = access.objects(request, "firstAvailable")
        for each in (request, access.mapping(request, "exactly"), *one_of):
            if found := access.text(each, "deviceClassName"):
                yield found
