"""KubeRay's kinds (ray.io/v1): head and worker groups, and `serveConfigV2`.

KubeRay starts Ray itself: in a RayService no container's argv holds an engine; its arguments are in
the Serve configuration, a YAML text. The container that runs Ray is the first one of each pod.
"""

from collections.abc import Iterable
from typing import Any, TypedDict

import yaml

from function.kube import access, yamls
from function.kube.access import Json
from function.problems import Refused, field_path
from function.reasons import Reason
from function.workloads import fieldpaths
from function.workloads.fieldpaths import Steps
from function.workloads.model import LEADER, SERVE, WORKER, Finder, Slot
from function.workloads.roles import count
from function.workloads.views import TemplateView


def cluster(*at: str) -> Finder:
    """Return a finder of the head and worker groups of the RayClusterSpec at `at`.

    They are one gang.
    """

    def finder(manifest: Json) -> Iterable[Slot]:
        head = (*at, "headGroupSpec", "template")
        group = fieldpaths.get(manifest, head[:-1])
        yield Slot(field_path(head), TemplateView(head), LEADER, ray=True, **_told(group))
        groups: Steps = (*at, "workerGroupSpecs")
        for i, workers in fieldpaths.objects(manifest, groups):
            here = (*groups, i, "template")
            # A group that autoscales from zero still makes pods of the gang.
            pods = max(1, count(workers.get("replicas"))) * count(workers.get("numOfHosts"))
            yield Slot(
                field_path(here), TemplateView(here), WORKER, pods, ray=True, **_told(workers)
            )

    return finder


class _Told(TypedDict):
    ranks: bool
    gpus: int | None


def _told(group: Any) -> _Told:
    """Return what a group's `ray start` is told of GPUs: Ray believes it."""
    told = access.text(group, "rayStartParams", "num-gpus")
    number = int(told) if told.isdecimal() and len(told) < 5 else None
    return {"ranks": told not in ("", "0"), "gpus": number}


def service(manifest: Json) -> Iterable[Slot]:
    """Yield the pods of a RayService's cluster, and each `llm_configs` entry."""
    yield from cluster("spec", "rayClusterConfig")(manifest)
    entries: Steps = ("applications", "*", "args", "llm_configs", "*")
    for at in fieldpaths.expand(_load(manifest), entries):
        yield Slot("spec.serveConfigV2:" + field_path(at), ServeEntryView(at), LEADER, kind=SERVE)


class ServeEntryView:
    """One `llm_configs` entry (an LLMConfig of Ray Serve LLM) inside the YAML text.

    Writing re-emits the text only when the entry changed; comments in it do not survive that.
    """

    annotations: Steps = ()

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def read(self, manifest: Json) -> Json | None:
        entry = fieldpaths.get(_load(manifest), self.steps)
        return entry if isinstance(entry, dict) else None

    def write(self, manifest: Json, body: Json) -> Json:
        config = _load(manifest)
        if fieldpaths.get(config, self.steps) == body:
            return manifest
        text = yaml.safe_dump(fieldpaths.put(config, self.steps, body), sort_keys=False, width=4096)
        return fieldpaths.put(manifest, _TEXT, text)


_TEXT: Steps = ("spec", "serveConfigV2")


def _load(manifest: Json) -> Any:
    text = fieldpaths.get(manifest, _TEXT)
    if not isinstance(text, str):
        return None
    try:
        yamls.check(text)
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as e:  # ValueError: an invalid date
        raise Refused(
            Reason.ARGS_NOT_PATCHABLE, f"This is not valid YAML: {e}", "spec.serveConfigV2"
        ) from None
