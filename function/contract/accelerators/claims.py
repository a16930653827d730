"""What a pod claims by DRA: the DeviceClasses behind its container's claims."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from function.kube import reading

Json = dict[str, Any]

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
        """The templates among the manifests."""
        return cls(
            tuple(
                (_namespace(each), reading.text(each, "metadata", "name"), tuple(_classes(each)))
                for each in manifests
                if each.get("kind") == KIND
            )
        )

    def of_container(self, namespace: str, pod: Json, container: Json) -> tuple[str, ...]:
        """The DeviceClasses of a container, in the order in which it names its claims.

        `namespace`: of the pod. A claim whose template cannot be seen says nothing.
        """
        templates = {
            reading.text(each, "name"): reading.text(each, "resourceClaimTemplateName")
            for each in reading.objects(pod, "resourceClaims")
        }
        named = (reading.text(c, "name") for c in reading.objects(container, "resources", "claims"))
        return tuple(
            found
            for name in named
            for found in self._by_name.get((namespace, templates.get(name, "")), ())
        )

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], tuple[str, ...]]:
        return {(namespace, name): classes for namespace, name, classes in self.seen}


def _namespace(template: Json) -> str:
    return reading.text(template, "metadata", "namespace") or "default"


def _classes(template: Json) -> Iterable[str]:
    for request in reading.objects(template, "spec", "spec", "devices", "requests"):
        one_of = reading.objects(request, "firstAvailable")
        for each in (request, reading.mapping(request, "exactly"), *one_of):
            if found := reading.text(each, "deviceClassName"):
                yield found
