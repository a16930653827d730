"""RoleBasedGroup (workloads.x-k8s.io): roles, patterns, role templates, patches.

v1alpha1: a role holds `template`, or `templateRef` and `templatePatch`; `workload.kind` decides the
form, a LeaderWorkerSet role has `leaderWorkerSet.{size,patchLeaderTemplate,patchWorkerTemplate}`,
an InstanceSet role has `components`. v1alpha2: the same under `standalonePattern`,
`leaderWorkerPattern` or `customComponentsPattern`, and the patch in `templateRef.patch`.
"""

from collections.abc import Iterable

from function.kube.access import Json
from function.problems import field_path
from function.workloads import fieldpaths
from function.workloads.fieldpaths import Steps
from function.workloads.model import LEADER, MEMBER, STANDALONE, WORKER, Slot, View
from function.workloads.roles import count, phase_by_name
from function.workloads.views import PatchedView, TemplateView

# Where a role's components stand, in v1alpha1 and v1alpha2.
_COMPONENTS: tuple[Steps, ...] = (("components",), ("customComponentsPattern", "components"))


def slots(manifest: Json) -> Iterable[Slot]:
    """Yield a RoleBasedGroup's slots, one gang per role."""
    for i, role in fieldpaths.objects(manifest, ("spec", "roles")):
        yield from _role(manifest, role, ("spec", "roles", i))


def _role(manifest: Json, role: Json, at: Steps) -> Iterable[Slot]:
    name = str(role.get("name", at[-1]))
    for components in _COMPONENTS:
        if fieldpaths.objects(role, components):
            yield from _components(manifest, (*at, *components), name)
            return
    pattern = fieldpaths.get_object(role, "leaderWorkerPattern")
    standalone = fieldpaths.get_object(role, "standalonePattern")
    if pattern:
        here = (*at, "leaderWorkerPattern")
        patches = ("leaderTemplatePatch", "workerTemplatePatch")
        yield from _leader_worker(manifest, pattern, pattern, here, here, patches, name)
    elif standalone:
        here = (*at, "standalonePattern")
        where, view = _source(manifest, standalone, here, ("templateRef", "patch"))
        yield Slot(where, view, phase=phase_by_name(name), gang=name)
    elif fieldpaths.get(role, ("workload", "kind")) == "LeaderWorkerSet":
        here = (*at, "leaderWorkerSet")
        patches = ("patchLeaderTemplate", "patchWorkerTemplate")
        sizes = fieldpaths.get_object(role, "leaderWorkerSet")
        yield from _leader_worker(manifest, role, sizes, at, here, patches, name)
    else:
        where, view = _source(manifest, role, at, ("templatePatch",))
        yield Slot(where, view, phase=phase_by_name(name), gang=name)


def _source(manifest: Json, holder: Json, at: Steps, patch: Steps) -> tuple[str, View]:
    """Return the path and view of a template source.

    It is inline, or a role template by name and its patch.
    """
    reference = fieldpaths.get(holder, ("templateRef", "name"))
    for i, template in fieldpaths.objects(manifest, ("spec", "roleTemplates")):
        if reference is not None and template.get("name") == reference:
            base = TemplateView(("spec", "roleTemplates", i, "template"))
            return field_path((*at, *patch)), PatchedView(base, (*at, *patch))
    return field_path((*at, "template")), TemplateView((*at, "template"))


def _leader_worker(
    manifest: Json,
    holder: Json,
    sizes: Json,
    source_at: Steps,
    patch_at: Steps,
    patches: tuple[str, str],
    name: str,
) -> Iterable[Slot]:
    own = ("templateRef", "patch") if source_at == patch_at else ("templatePatch",)
    where, view = _source(manifest, holder, source_at, own)
    size, phase = count(sizes.get("size")), phase_by_name(name)
    if not any(sizes.get(key) for key in patches):
        role = MEMBER if size > 1 else STANDALONE
        yield Slot(where, view, role, size, phase, name)
        return
    for role, pods, key in ((LEADER, 1, patches[0]), (WORKER, size - 1, patches[1])):
        here = (*patch_at, key)
        yield Slot(field_path(here), PatchedView(view, here), role, pods, phase, name)


def _components(manifest: Json, at: Steps, name: str) -> Iterable[Slot]:
    """Yield the components of one instance.

    The first is the leader: their names have no defined meaning.
    """
    components = fieldpaths.objects(manifest, at)
    total = sum(count(c.get("size")) for _, c in components)
    for i, component in components:
        here = (*at, i, "template")
        role = STANDALONE if total == 1 else LEADER if i == 0 else WORKER
        pods = count(component.get("size"))
        yield Slot(field_path(here), TemplateView(here), role, pods, phase_by_name(name), name)
