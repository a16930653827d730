"""One deployment through both of Modelplane's functions and ours, and what is compared.

A row is rendered four times: through Modelplane's step alone; with ours behind it; the same again,
when everything of it runs; and unwired on purpose.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from function import names
from kv_offload.render import conditions, reconcile
from tests.modelplane import fleet
from tests.modelplane.checkout import Checkout
from tests.render import simulate
from tests.render.servers import OURS

Document = dict[str, Any]
KEY = "crossplane.io/composition-resource-name"
CONDITION = "KVOffloadReady"
ENGINE = "engine"
# What our step composes beside what it was given.
_OURS = ("usage-tier-", "configmap-")


@dataclass(frozen=True)
class Bench:
    """A checkout with its functions served, and ours."""

    checkout: Checkout
    theirs: Mapping[str, Any]
    ours: Any

    def render(
        self, composition: Document, xr: Document, required: list[Document], observed: Any = ()
    ) -> reconcile.Rendered:
        runners = {**self.theirs, OURS: self.ours}
        inputs = reconcile.Inputs(xr, composition, runners, observed=observed, required=required)
        rendered = reconcile.render(inputs)
        assert not rendered.fatal, rendered.fatal
        return rendered


@dataclass(frozen=True)
class Row:
    """A replica of a deployment whose members carry these annotations."""

    bench: Bench
    xr: Document
    required: list[Document]

    def alone(self) -> reconcile.Rendered:
        """Modelplane's step without ours."""
        composition = self.bench.checkout.composition("modelreplicas")
        return self.bench.render(composition, self.xr, self.required)

    def both(self, before: reconcile.Rendered | None = None) -> reconcile.Rendered:
        """Modelplane's step and ours; `before`: everything of that render runs by now."""
        composition = self.bench.checkout.with_our_step("modelreplicas")
        if before is None:
            return self.bench.render(composition, self.xr, self.required)
        xr = {**self.xr, "status": before.xr["status"]}
        observed = simulate.observe(before.composed, "Ready")
        return self.bench.render(composition, xr, self.required, observed)


def row(bench: Bench, deployment: Document, tier: str, annotations: Mapping[str, str]) -> Row:
    """The row of a deployment's first replica, scheduled by Modelplane."""
    requesting = fleet.requesting(deployment, annotations)
    cluster = fleet.cluster(deployment, dict(bench.checkout.pin.spec))
    required = [cluster, *fleet.cache(deployment)]
    composition = bench.checkout.composition("modeldeployments")
    scheduled = bench.render(composition, requesting, required)
    replicas = [d for d in scheduled.composed if d["kind"] == "ModelReplica"]
    assert replicas, conditions.read(scheduled.xr)
    replica = copy.deepcopy(replicas[0])
    replica["metadata"].pop("ownerReferences", None)
    return Row(bench, replica, [*required, fleet.ready(tier)])


def by_key(rendered: reconcile.Rendered) -> dict[str, Document]:
    return {d["metadata"]["annotations"][KEY]: d for d in rendered.composed}


def others(document: Document) -> Document:
    """A composed resource without what is ours to change: our record, and an engine's pod.

    Of that pod its other containers stay, whole, and the names of all.
    """
    out = _without_record(document)
    manifest = (out.get("spec") or {}).get("forProvider", {}).get("manifest") or {}
    for template, pod in _templates(manifest.get("spec")):
        there = [container["name"] for container in pod["containers"]]
        if ENGINE in there:
            kept = [c for c in pod["containers"] if c["name"] != ENGINE]
            for field in ("metadata", "labels", "annotations"):
                template.pop(field, None)
            pod.clear()
            pod |= {"containers": kept, "named": there}
    return out


def _without_record(document: Document) -> Document:
    out = copy.deepcopy(document)
    out["metadata"].get("annotations", {}).pop(names.ANNOTATION_RECORD, None)
    return out


def _templates(node: Any) -> list[tuple[Document, Document]]:
    """Every pod spec below a workload's spec, each with what holds its labels: a PodTemplateSpec,
    or a clique of Grove's, whose pod is at `spec.podSpec`."""
    if isinstance(node, list):
        return [t for item in node for t in _templates(item)]
    if not isinstance(node, dict):
        return []
    spec = node.get("spec")
    for pod in (spec, spec.get("podSpec")) if isinstance(spec, dict) else ():
        if isinstance(pod, dict) and isinstance(pod.get("containers"), list):
            return [(node, pod)]
    return [t for value in node.values() for t in _templates(value)]


def engines(rendered: reconcile.Rendered) -> set[str]:
    """The keys of what runs engines."""
    return {k for k, d in by_key(rendered).items() if others(d) != _without_record(d)}


def ours(key: str) -> bool:
    return key.startswith(_OURS)


def condition(rendered: reconcile.Rendered) -> Document:
    """Our condition on the replica, {} without one."""
    return {c["type"]: c for c in conditions.read(rendered.xr)}.get(CONDITION) or {}
