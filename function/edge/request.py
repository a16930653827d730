"""A RunFunctionRequest as composers see it: plain values, read only where they are asked for."""

import math
from collections.abc import Collection, Container, Mapping
from functools import cached_property
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf import struct_pb2 as structpb

from function.edge import structs
from function.kube import access, errors, naming, objects
from function.names import CONTEXT_ASKED

Document = dict[str, Any]

_KIND = ("apiVersion", "kind")
_OWNERS = ("metadata", "ownerReferences")
_NAMESPACE = ("metadata", "namespace")
_POLICIES = ("spec", "managementPolicies")
_RESOURCE_NAME = ("metadata", "annotations", naming.RESOURCE_NAME)
# How crossplane-runtime begins its errors where it has not read the external resource.
_UNSEEN = ("connect failed: ", "observe failed: ")


class Call:
    """One function call. The documents that it returns are shared: do not change them.

    Three states of a required resource must be told apart: `required(name)` is None while core has
    not resolved it, [] when it was looked for and is absent, and a list of documents otherwise.
    """

    def __init__(self, req: fnv1.RunFunctionRequest, now: float = 0.0) -> None:
        """`now`: the time of the call, in seconds since 1970."""
        self._req = req
        self._now = now
        # Up to when the same request has the same answer.
        self.valid_until = math.inf
        self._added: dict[str, Document] = {}
        self.taken_for_observed: set[str] = set()

    @property
    def input(self) -> Document:
        """Return the step's Input, {} when the step has none."""
        return structs.decode(self._req.input) if self._req.HasField("input") else {}

    @cached_property
    def composite(self) -> Document:
        """Return the whole composite."""
        return _document(self._req.observed.composite.resource, access.COMPOSITE)

    @property
    def name(self) -> str:
        """Return the composite as `kind namespace/name`, for the log."""
        parts = (("metadata", "namespace"), ("metadata", "name"))
        named = "/".join(str(self.composite_value(*path) or "") for path in parts)
        return f"{self.composite_value('kind')} {named}"

    @property
    def is_unresponsive(self) -> bool:
        """Return whether core's circuit breaker is open: the composite misses changes."""
        return structs.condition(self._req.observed.composite.resource, "Responsive") == "False"

    def is_watched(self, names: Collection[str]) -> bool:
        """Return whether core watches what is required by these names.

        Core 2.4 does, and brings it with the first call of the next reconcile; no capability says
        so. Core 2.3 only brings what an earlier call of the same reconcile asked for, and that call
        left a mark in the context. A Composition that requires all of it itself, by our names,
        looks like 2.4.
        """
        came = bool(names) and not self.lacks(names)
        return came and CONTEXT_ASKED not in self._req.context.fields

    def lacks(self, names: Collection[str]) -> bool:
        """Return whether some of what is required by these names did not come with the call."""
        return any(name not in self._req.required_resources for name in names)

    def composite_value(self, *path: str | int) -> Any:
        """Return one value of the composite, without converting the rest."""
        found = structs.read(self._req.observed.composite.resource, *path)
        return access.typed(found, access.COMPOSITE, *path)

    def composite_condition(self, kind: str) -> Document:
        """Return a whole condition of the composite, {} where it has none of that type."""
        return _condition(self.composite_value("status", "conditions"), kind)

    @property
    def composite_spec_bytes(self) -> bytes:
        """Return the serialised `spec` of the composite, as a key for memos."""
        fields = self._req.observed.composite.resource.fields
        return fields["spec"].SerializeToString(deterministic=True) if "spec" in fields else b""

    # Required resources -----------------------------------------------------------------------

    def required(self, name: str) -> list[Document] | None:
        if name not in self._req.required_resources:
            return None
        return [_document(i.resource) for i in self._req.required_resources[name].items]

    def required_values(
        self, name: str, *paths: tuple[str | int, ...]
    ) -> list[tuple[Any, ...]] | None:
        """Return the values at the paths of each required resource; None: unresolved."""
        if name not in self._req.required_resources:
            return None
        items = self._req.required_resources[name].items
        return [tuple(_value(i.resource, *path) for path in paths) for i in items]

    def required_schema(self, name: str) -> Document | None:
        """Return the OpenAPI schema required by that name; None: unresolved, or no such kind."""
        if name not in self._req.required_schemas:
            return None
        return structs.decode(self._req.required_schemas[name].openapi_v3) or None

    def declares_status(self, name: str, field: str) -> bool:
        """Return whether the required schema of that name declares `status.<field>`."""
        if name not in self._req.required_schemas:
            return False
        schema = self._req.required_schemas[name].openapi_v3
        return structs.read(schema, "properties", "status", "properties", field) is not None

    # Observed and desired composed resources --------------------------------------------------

    def has_passed(self, moment: float) -> bool:
        """Return whether the clock is past `moment`, in seconds since 1970.

        The only way to the clock: an answer that was given before a moment is void after it.
        """
        if self._now > moment:
            return True
        self.valid_until = min(self.valid_until, moment)
        return False

    def changes_within(self, seconds: float) -> bool:
        """Return whether time alone changes the answer so soon; else it is asked for before that.

        The same request has the same answer only as long as this one holds, too.
        """
        if self.valid_until - self._now <= seconds:
            return True
        self.valid_until -= seconds
        return False

    @property
    def anything_observed(self) -> bool:
        return bool(self._req.observed.resources)

    def observe_required(self, name: str) -> None:
        """Take for observed what the composite composes of the resources required by that name."""
        uid, home = (self.composite_value("metadata", field) for field in ("uid", "namespace"))
        rows = self.required_values(name, _OWNERS, _RESOURCE_NAME, _NAMESPACE) or []
        for position, (owners, key, namespace) in enumerate(rows):
            # Of a namespaced composite core composes all in its namespace; others write elsewhere.
            is_here = not home or namespace == home
            is_own = access.controller(owners) == uid
            if key and is_here and is_own and not self.is_observed(key):
                self._observe_required(key, name, position)
                self.taken_for_observed.add(key)

    def _observe_required(self, key: str, name: str, position: int) -> None:
        found = self._req.required_resources[name].items[position].resource
        self._req.observed.resources[key].resource.CopyFrom(found)

    def is_observed(self, key: str) -> bool:
        return key in self._req.observed.resources

    def observed_keys(self) -> list[str]:
        return sorted(self._req.observed.resources)

    def observed(self, key: str) -> Document | None:
        """Return a whole observed resource. Prefer `observed_value`: it converts less."""
        if key not in self._req.observed.resources:
            return None
        return _document(self._req.observed.resources[key].resource)

    def observed_value(self, key: str, *path: str | int) -> Any:
        if key not in self._req.observed.resources:
            return None
        return _value(self._req.observed.resources[key].resource, *path)

    def observed_part(self, key: str, *path: str) -> Document:
        """Return the object at a path of an observed resource, {} where there is none.

        It is remembered, for what stays while the rest of the resource changes.
        """
        if key not in self._req.observed.resources:
            return {}
        return structs.part(self._req.observed.resources[key].resource, *path)

    def observed_condition(self, key: str, kind: str) -> str:
        if key not in self._req.observed.resources:
            return "Unknown"
        return structs.condition(self._req.observed.resources[key].resource, kind)

    def observed_whole_condition(self, key: str, kind: str) -> Document:
        """Return a whole condition of an observed resource, {} where it has none of that type."""
        return _condition(self.observed_value(key, "status", "conditions"), kind)

    def refused_write(self, key: str) -> str:
        """Return why the provider could not write an Object's manifest, "" where it could.

        The same words for each try, as far as its error is the same.
        """
        if self.observed_condition(key, "Synced") != "False":
            return ""
        entry = self.observed_whole_condition(key, "Synced")
        said = str(entry.get("message") or entry.get("reason") or "the provider gave no reason")
        return errors.without_differences(said)

    def unseen_since(self, key: str) -> str:
        """Return since when the provider no longer sees what an Object stands for, "" if it does.

        What the Object's status repeats is as old. Other errors concern a write alone.
        """
        entry = self.observed_whole_condition(key, "Synced")
        unseen = str(entry.get("message")).startswith(_UNSEEN)
        if entry.get("status") != "False" or not unseen:
            return ""
        seen = self.observed_value(key, *objects.STATUS_MANIFEST, "kind") is not None
        return str(entry.get("lastTransitionTime")) if seen else ""

    def is_leaving(self, key: str) -> bool:
        """Return whether an observed resource is being deleted: what it says soon is no more."""
        return bool(self.observed_value(key, "metadata", "deletionTimestamp"))

    def observed_ready(self, key: str, *, by_existing: bool = False) -> bool:
        """Return whether an observed Object is ready, and stays.

        `by_existing`: what it stands for is ready as soon as it exists, so Synced is enough: it is
        True only after a successful write. Where the thing was there already (a Namespace that
        tiers share), provider-kubernetes v1.2.1 says Ready only at its next poll, 30 s later.
        """
        kinds = ("Ready", "Synced") if by_existing else ("Ready",)
        found = any(self.observed_condition(key, kind) == "True" for kind in kinds)
        return found and not self.is_leaving(key)

    def is_applied(self, key: str, *, but: Container[str] = frozenset()) -> bool:
        """Return whether the provider has applied an Object as it is observed.

        It writes the generation that it applied with what the cluster made of it. Where it failed
        it writes the generation that it tried, and leaves what it saw last: that must hold all but
        the fields `but`, which others may write. So must what it sees where it may not write.
        """
        synced = self.observed_whole_condition(key, "Synced")
        may_write = objects.may_write(self.observed_value(key, *_POLICIES))
        if synced.get("status") == "False" or not may_write:
            wanted, there = (
                self.observed_value(key, *path)
                for path in (objects.MANIFEST, objects.STATUS_MANIFEST)
            )
            return access.holds(there, wanted, but=but)
        applied = synced.get("observedGeneration")
        return applied in (None, self.observed_value(key, "metadata", "generation"))

    def observed_provider_config(self) -> str:
        """Return the ClusterProviderConfig of observed Objects, "" where there is none."""
        for key in self.observed_keys():
            name = self.observed_value(key, "spec", "providerConfigRef", "name")
            if name:
                return str(name)
        return ""

    def desired_keys(self) -> list[str]:
        """Return the keys of earlier steps' resources and of those that this step has added."""
        return sorted({*self._req.desired.resources, *self._added})

    def desired(self, key: str) -> Document:
        """Return a whole desired resource. Raise KeyError."""
        if key in self._added:
            return self._added[key]
        if key not in self._req.desired.resources:
            raise KeyError(key)
        return structs.decode(self._req.desired.resources[key].resource)

    def is_taken(self, key: str, manifest: Mapping[str, Any]) -> bool:
        """Return whether an earlier step desires something else under a key."""
        earlier = self._req.desired.resources
        return key in earlier and structs.decode(earlier[key].resource) != manifest

    def desired_value(self, key: str, *path: str | int) -> Any:
        """Return one value of a desired resource, without converting the rest."""
        if key in self._added:
            value: Any = self._added[key]
            for step in path:
                value = value.get(step) if isinstance(value, dict) else None
            return value
        return structs.read(self._req.desired.resources[key].resource, *path)

    def desired_kind(self, key: str) -> tuple[str, str]:
        """Return apiVersion and kind of a desired resource, or of the manifest in an Object.

        "" where one is no text.
        """
        api_version, kind = self.desired_own_kind(key)
        if objects.is_object({"apiVersion": api_version, "kind": kind}):
            return self.desired_own_kind(key, *objects.MANIFEST)
        return api_version, kind

    def desired_own_kind(self, key: str, *path: str) -> tuple[str, str]:
        """Return apiVersion and kind of a desired resource itself, or of what it has at a path."""
        found = (self.desired_value(key, *path, field) for field in _KIND)
        api_version, kind = (text if isinstance(text, str) else "" for text in found)
        return api_version, kind

    def desired_mentions(self, key: str, *texts: str) -> bool:
        """Return whether a desired resource contains one of the texts, without converting it."""
        if key in self._added:
            return any(text in str(self._added[key]) for text in texts)
        wire = self._req.desired.resources[key].resource.SerializeToString()
        return any(text.encode() in wire for text in texts)

    def desire(self, resources: Mapping[str, Document]) -> None:
        """Show later parts of this step the resources that an earlier part composes."""
        self._added.update(resources)


def _document(struct: structpb.Struct, shape: Document = access.FOREIGN) -> Document:
    """Return a document whose well-known fields have their types."""
    found: Document = access.typed(structs.decode(struct), shape)
    return found


def _value(struct: structpb.Struct, *path: str | int) -> Any:
    return access.typed(structs.read(struct, *path), access.FOREIGN, *path)


def _condition(conditions: Any, kind: str) -> Document:
    return access.condition({"status": {"conditions": conditions}}, kind)
