"""Wire one pod template, and find templates by their paths."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from function import command, workloads
from function.contract.engine import Engine
from function.contract.injection import Injection, Json
from function.engines import ray_serve
from function.engines.plan import FlagPlan
from function.engines.registry import kind
from function.kube.naming import config_key
from function.pods import lost_variables, patch
from function.pods.gang import Pod
from function.problems import Refused
from function.reasons import Reason
from function.workloads.model import SERVE, Template

FILES_VOLUME = "kv-offload-files"


def apply(
    pod: Pod, engine: Engine, injection: Injection, files_name: str
) -> tuple[Json, list[FlagPlan]]:
    """Wire one pod template: argv where it starts an engine, the rest of the pod always."""
    template, program = pod.template, pod.program
    if template.kind == SERVE:
        lost_variables.check_ray(template.body, injection)
        plans = [kind(engine.name).plan(call, engine, injection) for call in pod.calls]
        return ray_serve.apply(template.body, injection), plans
    if program.problem:
        raise Refused(Reason.ARGS_NOT_PATCHABLE, program.problem, template.path)
    place = f"spec.containers[{pod.container.get('name') or pod.index}].command"
    brought = pod.container.get("env") or ()
    volume = _files_volume(injection, files_name) if injection.files else None
    try:
        lost_variables.check(program, injection, place)
        plans = [kind(engine.name).plan(call, engine, injection) for call in pod.calls]
        edits = {i: edits for i, plan in enumerate(plans) if (edits := plan.edits())}
        opted_in = {plan.opt_in() for plan in plans if plan.call.opted_in}
        if len(opted_in) > 1:
            raise Refused(
                Reason.ARGS_NOT_PATCHABLE,
                f"its engine calls need different ${command.OPT_IN}; "
                "start one engine per container",
                template.path,
            )
        for value in opted_in:
            variable = {"name": command.OPT_IN, "value": value}
            lost_variables.check(program, Injection("", env=(variable,)), place)
            injection = replace(injection, env=(*injection.env, variable))
        changes = command.rewrite(program, edits)
    except Refused as refused:
        try:  # What its fields are refused for too, so that one round tells every problem.
            patch.apply(dict(template.body), pod.index, injection, {}, volume, brought)
        except Refused as more:
            raise Refused.all_of([*refused.parts, *more.parts]) from None
        raise
    body = patch.apply(dict(template.body), pod.index, injection, changes, volume, brought)
    return body, plans


def _files_volume(injection: Injection, files_name: str) -> Json:
    """Return the ConfigMap as a volume, with `items` where a file stands in a folder."""
    source: Json = {"name": files_name}
    if any("/" in path for path in injection.files):
        source["items"] = [
            {"key": config_key(path), "path": path} for path in sorted(injection.files)
        ]
    return {"name": FILES_VOLUME, "configMap": source}


def of(manifest: Json, places: Sequence[str]) -> tuple[Template, ...]:
    """Return the templates of a workload, () for an unknown kind.

    `places`: where the step's Input says that they stand.
    """
    workload = workloads.find(manifest, places)
    return workload.templates if workload else ()


def found(manifest: Json, paths: Iterable[str], places: Sequence[str]) -> Json:
    """Return {path: body} for those of the paths that the workload has, in their order."""
    there = {template.path: template.body for template in of(manifest, places)}
    return {path: there[path] for path in paths if path in there}
