"""Views: read kinds that store no plain PodTemplateSpec as one, and write back.

Reading shares with the manifest, writing copies only the path to what changed.
"""

from dataclasses import dataclass

from function.kube.access import Json
from function.problems import Refused, field_path
from function.reasons import Reason
from function.workloads import fieldpaths, strategic_merge
from function.workloads.fieldpaths import Steps
from function.workloads.model import View


@dataclass(frozen=True)
class TemplateView:
    """A PodTemplateSpec at `steps`; () is a bare Pod, whose metadata is its own."""

    steps: Steps

    @property
    def annotations(self) -> Steps:
        return (*self.steps, "metadata", "annotations")

    def read(self, manifest: Json) -> Json | None:
        node = fieldpaths.get(manifest, self.steps)
        return node if isinstance(node, dict) and isinstance(node.get("spec"), dict) else None

    def write(self, manifest: Json, body: Json) -> Json:
        return fieldpaths.put(manifest, self.steps, body)


@dataclass(frozen=True)
class PodSpecBelow:
    """A PodSpec at `steps` + `below`, its pods' labels and annotations at `steps`.

    Used for KServe and Grove.
    """

    steps: Steps
    below: Steps

    @property
    def annotations(self) -> Steps:
        return (*self.steps, "annotations")

    def read(self, manifest: Json) -> Json | None:
        node = fieldpaths.get(manifest, self.steps)
        pod = fieldpaths.get(node, self.below)
        if not isinstance(node, dict) or not isinstance(pod, dict):
            return None
        metadata = {k: node[k] for k in ("labels", "annotations") if node.get(k) is not None}
        return {**({"metadata": metadata} if metadata else {}), "spec": pod}

    def write(self, manifest: Json, body: Json) -> Json:
        manifest = fieldpaths.put(manifest, (*self.steps, *self.below), body["spec"])
        node = {**fieldpaths.get(manifest, self.steps), **(body.get("metadata") or {})}
        return fieldpaths.put(manifest, self.steps, node)


@dataclass(frozen=True)
class BarePodSpecView:
    """A PodSpec at `steps` without a place for labels and annotations."""

    steps: Steps
    annotations: Steps = ()

    def read(self, manifest: Json) -> Json | None:
        node = fieldpaths.get(manifest, self.steps)
        return {"spec": node} if isinstance(node, dict) and "containers" in node else None

    def write(self, manifest: Json, body: Json) -> Json:
        if body.get("metadata"):
            raise Refused(
                Reason.POD_CONFLICT,
                "A PodSpec has no place for the labels of a wired pod. Give the path of the pod "
                "template that contains it.",
                field_path(self.steps),
            )
        return fieldpaths.put(manifest, self.steps, body["spec"])


_NOT_POD = frozenset(("runner", "leader", "worker", "labels", "annotations"))


@dataclass(frozen=True)
class ComponentView:
    """A component with a PodSpec inline and its engine container in `runner` (OME).

    `metadata`: the steps of the object with `labels` and `annotations` of the pods, which a leader
    or worker has only above it. The component's other fields appear in the PodSpec and stay.
    """

    steps: Steps
    metadata: Steps

    @property
    def annotations(self) -> Steps:
        return (*self.metadata, "annotations")

    def read(self, manifest: Json) -> Json | None:
        node = fieldpaths.get(manifest, self.steps)
        if not isinstance(node, dict) or not (node.get("runner") or node.get("containers")):
            return None
        holder = fieldpaths.get_object(manifest, *self.metadata)
        metadata = {k: holder[k] for k in ("labels", "annotations") if holder.get(k) is not None}
        spec = {k: v for k, v in node.items() if k not in _NOT_POD}
        runner = node.get("runner")
        if runner:
            others = node.get("containers")
            spec["containers"] = [runner, *(others if isinstance(others, list) else ())]
        return {**({"metadata": metadata} if metadata else {}), "spec": spec}

    def write(self, manifest: Json, body: Json) -> Json:
        node = dict(fieldpaths.get(manifest, self.steps))
        spec = dict(body["spec"])
        if node.get("runner"):
            node["runner"], *others = spec.pop("containers")
            if others:
                node["containers"] = others
        node.update(spec)
        manifest = fieldpaths.put(manifest, self.steps, node)
        holder = {**fieldpaths.get(manifest, self.metadata), **(body.get("metadata") or {})}
        return fieldpaths.put(manifest, self.metadata, holder)


@dataclass(frozen=True)
class PatchedView:
    """The template that `base` reads, with a strategic merge patch applied.

    Writing puts the additions into the patch at `patch` and proves that it now yields the wired
    template.
    """

    base: View
    patch: Steps

    @property
    def annotations(self) -> Steps:
        return self.base.annotations

    def read(self, manifest: Json) -> Json | None:
        base = self.base.read(manifest)
        if base is None:
            return None
        patch = fieldpaths.get(manifest, self.patch)
        try:
            return strategic_merge.merge(base, patch) if patch else base
        except strategic_merge.Unsupported as e:
            raise Refused(Reason.POD_CONFLICT, str(e), field_path(self.patch)) from None

    def write(self, manifest: Json, body: Json) -> Json:
        base, have = self.base.read(manifest) or {}, self.read(manifest) or {}
        if body == have:
            return manifest
        patch: Json | None = fieldpaths.get(manifest, self.patch) or {}
        try:
            patch = strategic_merge.compose(patch, strategic_merge.diff(have, body))
            proven = strategic_merge.merge(base, patch) == body
        except strategic_merge.Unsupported:
            proven = False
        if not proven:
            raise Refused(
                Reason.POD_CONFLICT,
                "The wired template cannot be expressed as a patch of its role template. Write the "
                "template inline.",
                field_path(self.patch),
            )
        return fieldpaths.put(manifest, self.patch, patch)
