"""Pod templates in any workload: where they stand, which of them form one engine, and writing back.

`find()` reads, `replace()` writes; neither changes its input. Which kinds are known is the table in
`kinds`; how a kind that holds no plain PodTemplateSpec is read as one is in `views`.
"""

from collections.abc import Sequence
from typing import Any

from function.problems import Refused
from function.reasons import Reason
from function.workloads import kinds, pod_shape
from function.workloads.fieldpaths import get_object
from function.workloads.kinds import is_known
from function.workloads.model import (
    LEADER,
    MEMBER,
    POD,
    SERVE,
    STANDALONE,
    WORKER,
    Gang,
    Slot,
    Template,
    Workload,
)
from function.workloads.rolled import is_rolled_out

__all__ = [
    "LEADER",
    "MEMBER",
    "POD",
    "SERVE",
    "STANDALONE",
    "WORKER",
    "Gang",
    "Template",
    "Workload",
    "find",
    "is_known",
    "is_rolled_out",
    "replace",
]

Json = dict[str, Any]


def find(manifest: Json, paths: Sequence[str] = ()) -> Workload | None:
    """The pod templates of a workload, grouped by engine; None where there are none.

    `paths`: places of PodTemplateSpecs in a kind that is not known here (`spec.roles[*].template`);
    given for a known kind, they replace what is known. A malformed template is found too, with its
    `problem`. Raises Refused(PodConflict) for a path that cannot be read and for a patch that
    cannot be resolved.
    """
    slots = _slots(manifest, paths)
    gangs: dict[str, list[Template]] = {}
    for slot in slots:
        body = slot.view.read(manifest)
        if body is not None:
            gangs.setdefault(slot.gang, []).append(_template(slot, body))
    if not gangs:
        return None
    return Workload(
        engines=tuple(Gang(name, tuple(templates)) for name, templates in gangs.items()),
        model_source=kinds.model_source(manifest),
    )


def _template(slot: Slot, body: Json) -> Template:
    path, wrong = pod_shape.of_serve(body) if slot.kind == SERVE else pod_shape.of_template(body)
    where = f"{slot.path}.{path}" if path else slot.path
    problem = f"{where}: {wrong}" if wrong else ""
    if problem:
        annotations = get_object(body, "metadata", "annotations")
        texts = {k: v for k, v in annotations.items() if isinstance(v, str)}
        body = {"metadata": {"annotations": texts}, "spec": {"containers": []}}
    return Template(
        slot.path,
        slot.role,
        slot.pods,
        slot.phase,
        body,
        slot.kind,
        problem,
        slot.ray,
        slot.advice,
        slot.preset,
        slot,
    )


def replace(manifest: Json, template: Template, body: Json) -> Json:
    """The manifest with a template that `find` gave replaced; the rest is shared.

    Raises Refused(PodConflict) where the kind has no place for what the template now says, and
    where the template there is malformed.
    """
    if template.problem or template.slot is None:
        # What was read of it is not all of it: writing would lose the rest.
        raise Refused(Reason.POD_CONFLICT, template.problem or "there is no pod template here", "")
    return template.slot.view.write(manifest, body)


def _slots(manifest: Json, paths: Sequence[str]) -> list[Slot]:
    return kinds.explicit(manifest, paths) if paths else kinds.known(manifest)
