"""Pod templates in any workload: where they stand, which of them form one engine, and writing back.

`find()` reads, `replace()` writes; neither changes its input. Which kinds are known is the table in
`kinds`; how a kind that holds no plain PodTemplateSpec is read as one is in `lenses`.
"""

from collections.abc import Sequence
from typing import Any

from function.problems import Refused
from function.wiring.workloads import kinds
from function.wiring.workloads.fieldpaths import get_object
from function.wiring.workloads.model import (
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
    "replace",
]

Json = dict[str, Any]


def find(manifest: Json, paths: Sequence[str] = ()) -> Workload | None:
    """The pod templates of a workload, grouped by engine; None where there are none.

    `paths`: places of PodTemplateSpecs in a kind that is not known here (`spec.roles[*].template`);
    given for a known kind, they replace what is known. Raises Refused(PodConflict) for a path that
    cannot be read and for a patch that cannot be resolved.
    """
    slots = _slots(manifest, paths)
    gangs: dict[str, list[Template]] = {}
    for slot in slots:
        body = slot.lens.read(manifest)
        if body is not None:
            template = Template(slot.path, slot.role, slot.pods, slot.phase, body, slot.kind)
            gangs.setdefault(slot.gang, []).append(template)
    if not gangs:
        return None
    return Workload(
        api_version=str(manifest.get("apiVersion", "")),
        kind=str(manifest.get("kind", "")),
        name=str(get_object(manifest, "metadata").get("name", "")),
        engines=tuple(Gang(name, tuple(templates)) for name, templates in gangs.items()),
        model_source=kinds.model_source(manifest),
    )


def replace(manifest: Json, path: str, body: Json) -> Json:
    """The manifest with the template at `path` (a `Template.path`) replaced; the rest is shared.

    Raises Refused(PodConflict) where the kind has no place for what the template now says.
    """
    for slot in _slots(manifest, ()):
        if slot.path == path:
            return slot.lens.write(manifest, body)
    for slot in kinds.explicit(manifest, (path,)):
        return slot.lens.write(manifest, body)
    raise Refused("PodConflict", "there is no pod template here", path)


def _slots(manifest: Json, paths: Sequence[str]) -> list[Slot]:
    return kinds.explicit(manifest, paths) if paths else kinds.known(manifest)
