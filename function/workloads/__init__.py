"""Pod templates of any workload: find them, group them by engine, write them back.

`find()` reads, `replace()` writes; neither changes its input. The table in `kinds` lists the known
kinds; `views` reads kinds that store no plain PodTemplateSpec as one.
"""

from collections.abc import Sequence

from function.kube import access
from function.kube.access import Json
from function.problems import Refused, field_path
from function.reasons import Reason
from function.workloads import kinds, pod_shape
from function.workloads.model import SERVE, Gang, Slot, Template, Workload


def find(manifest: Json, paths: Sequence[str] = ()) -> Workload | None:
    """Return a workload's pod templates, grouped by engine; None where there are none.

    `paths`: places of PodTemplateSpecs in a kind that is not known here (`spec.roles[*].template`);
    given for a known kind, they replace the table's. A malformed template is found too, with its
    `problem`. Raise Refused(PodConflict) for a path that cannot be parsed and for a patch that
    cannot be resolved.
    """
    slots = kinds.slots_at_paths(manifest, paths) if paths else kinds.slots_of_kind(manifest)
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


def annotation_paths(workload: Workload) -> tuple[str, ...]:
    """Return where the annotations of its pods stand, each path once."""
    places = (t.slot.view.annotations for t in workload.templates if t.slot is not None)
    return tuple(dict.fromkeys(field_path(place) for place in places if place))


def _template(slot: Slot, body: Json) -> Template:
    serve = slot.kind == SERVE
    find_problem = pod_shape.find_serve_problem if serve else pod_shape.find_template_problem
    path, wrong = find_problem(body)
    where = f"{slot.path}.{path}" if path else slot.path
    problem = f"{where}: {wrong}" if wrong else ""
    if problem:
        annotations = access.texts(body, "metadata", "annotations")
        body = {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
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
        slot.command_by,
        slot.note,
        slot.ranks,
        slot.gpus,
        slot,
    )


def replace(manifest: Json, template: Template, body: Json) -> Json:
    """Return the manifest with one template of `find` replaced; the rest is shared.

    Raise Refused(PodConflict) where the kind has no place for a part of the new body, and where the
    template there is malformed.
    """
    if template.problem or template.slot is None:
        # Its body was cut down: writing it would lose the rest.
        raise Refused(Reason.POD_CONFLICT, template.problem or "There is no pod template here.", "")
    return template.slot.view.write(manifest, body)


def read(manifest: Json, template: Template) -> Json | None:
    """Return the body that a manifest has for a template of `find`.

    It may differ from the one that was written: KServe's presets show a value twice.
    """
    return template.slot.view.read(manifest) if template.slot else None
