"""Workloads as wiring sees them: engines, each a gang of pod templates."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from function.kube.access import Json
from function.workloads.fieldpaths import Steps

# Roles of a template in its gang. A member is leader and worker in one.
STANDALONE, LEADER, WORKER, MEMBER = "Standalone", "Leader", "Worker", "Member"
UNIFIED, PREFILL, DECODE = "Unified", "Prefill", "Decode"
# Kinds of a body: a PodTemplateSpec, or one `llm_configs` entry of a Ray Serve application.
POD, SERVE = "pod", "serve"


@dataclass(frozen=True)
class Template:
    """One pod template.

    `path`: its place in the manifest, for people and for records. `pods`: how many pods of one
    engine are made from it. `phase`: Unified, Prefill or Decode, by the workload's own fields and
    role names (the argv may tell more). `body`: a PodTemplateSpec, whatever the kind stores;
    read-only. `problem`: why the body cannot be relied on, and where; the body is then cut down to
    its annotations. `ray`: the controller starts Ray in a container without a command, whatever its
    image's entrypoint is. `advice`: what to type so that flags can be added where no command is
    visible. `preset`: the container whose command the controller brings where it has none, whatever
    its image's entrypoint is. `command_by`: who brings the command in `body`, "" for itself.
    `note`: what to know of that command. `ranks`: Ray is told of GPUs there, whatever the pod asks
    for; `gpus`: how many, None where it is not told. `slot`: its place, for `replace()`.
    """

    path: str
    role: str
    pods: int
    phase: str
    body: Mapping[str, Any]
    kind: str = POD
    problem: str = ""
    ray: bool = False
    advice: str = ""
    preset: str = ""
    command_by: str = ""
    note: str = ""
    ranks: bool = False
    gpus: int | None = None
    slot: "Slot | None" = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Gang:
    """The templates whose pods form one engine: all of them are wired, or none.

    `name`: the role's name in the workload, "" where it has none.
    """

    name: str
    templates: tuple[Template, ...]

    @property
    def pods(self) -> int:
        return sum(t.pods for t in self.templates if t.kind == POD)


@dataclass(frozen=True)
class Workload:
    """The engines of a workload.

    `model_source`: the origin of the weights by the workload's own fields, or "".
    """

    engines: tuple[Gang, ...] = ()
    model_source: str = ""

    @property
    def templates(self) -> tuple[Template, ...]:
        return tuple(t for gang in self.engines for t in gang.templates)


class View(Protocol):
    """A part of a manifest read as a template and written back, the rest untouched.

    `annotations`: the place of its pods' annotations, () without one.
    """

    @property
    def annotations(self) -> Steps: ...

    def read(self, manifest: Json) -> Json | None: ...

    def write(self, manifest: Json, body: Json) -> Json: ...


@dataclass(frozen=True)
class Slot:
    """A template's place before it is read: the fields of `Template`, gang and view."""

    path: str
    view: View
    role: str = STANDALONE
    pods: int = 1
    phase: str = UNIFIED
    gang: str = ""
    kind: str = POD
    ray: bool = False
    advice: str = ""
    preset: str = ""
    command_by: str = ""
    note: str = ""
    ranks: bool = False
    gpus: int | None = None


# How one kind's templates are found in its manifest.
Finder = Callable[[Json], Iterable[Slot]]
