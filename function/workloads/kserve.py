"""KServe's LLMInferenceService: pods whose command is in a preset of KServe's own.

A service names an image and variables; the presets (LLMInferenceServiceConfig) bring the command: a
script that evaluates `vllm serve /mnt/models ... ${VLLM_ADDITIONAL_ARGS} $@`. Presets for one node
read that variable from KServe 0.18 on; older ones run `vllm serve` without it. So a service that
sets the variable declares that its presets read it. Read in config/llmisvc and config/llmisvcconfig
of 0.16 to 0.19.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from function.kube.access import Json
from function.problems import Refused, field_path
from function.reasons import Reason
from function.workloads import fieldpaths
from function.workloads.fieldpaths import Steps
from function.workloads.model import DECODE, PREFILL, UNIFIED, Slot
from function.workloads.roles import count, leader_and_workers
from function.workloads.views import PodSpecBelow

ADDITIONAL = "VLLM_ADDITIONAL_ARGS"
_MAIN = "main"
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_SINCE = (
    f"the flags are in {ADDITIONAL}, which KServe's preset reads from KServe 0.18 on; an older "
    "KServe starts the engine without them"
)


def slots(manifest: Json) -> Iterable[Slot]:
    """Yield the slots of an LLMInferenceService.

    With `spec.prefill` the top level is the decode workload; without it the workload is unified.
    """
    prefill = fieldpaths.get(manifest, ("spec", "prefill")) is not None
    parts: tuple[tuple[Steps, str, str], ...] = (
        (("spec",), "decode" if prefill else "", DECODE if prefill else UNIFIED),
        (("spec", "prefill"), "prefill", PREFILL),
    )
    advice = _advice(manifest)
    for at, name, phase in parts:
        component = fieldpaths.get(manifest, at)
        if not isinstance(component, dict):
            continue
        where = field_path(at)
        workers = (_size(component) - 1) if component.get("worker") else 0
        one_node = not component.get("worker")
        yield from leader_and_workers(
            _slot(manifest, f"{where}.template", PresetView(at, ("template",)), advice, one_node),
            _slot(manifest, f"{where}.worker", PresetView(at, ("worker",)), advice, one_node),
            workers,
            phase,
            name,
        )


def _slot(manifest: Json, path: str, view: "PresetView", advice: str, one_node: bool) -> Slot:
    """Return the slot of a view, with a note where a preset for one node brings the command."""
    if not view.shows_preset(manifest):
        return Slot(path, view, advice=advice, preset=_MAIN)
    note = _SINCE if one_node else ""
    return Slot(path, view, advice=advice, preset=_MAIN, command_by="KServe's preset", note=note)


def _advice(manifest: Json) -> str:
    """Return what to type so that the service shows how its engine starts."""
    remove = "" if _uses_kserve_preset(manifest) else " and remove spec.baseRefs"
    return (
        f"set {ADDITIONAL} in the env of container {_MAIN} (it may be empty){remove} "
        "(KServe's presets read the variable from 0.18 on), or write the container's command"
    )


def _size(component: Json) -> int:
    """Return the pods of a gang: data/dataLocal, or the pipeline's stages.

    A worker means at least two.
    """
    parallelism = fieldpaths.get_object(component, "parallelism")
    data, local = count(parallelism.get("data")), count(parallelism.get("dataLocal"))
    return max(2, data // max(local, 1), count(parallelism.get("pipeline")))


@dataclass(frozen=True)
class PresetView(PodSpecBelow):
    """The pods with the preset's command made visible; added flags go to ADDITIONAL.

    The preset evaluates ADDITIONAL and the container's args as text, so both are shown verbatim in
    the script.
    """

    def shows_preset(self, manifest: Json) -> bool:
        """Return whether the command that `read` shows is the preset's."""
        body = super().read(manifest)
        if body is None or not _uses_kserve_preset(manifest):
            return False
        return _preset_container(body) is not None

    def read(self, manifest: Json) -> Json | None:
        body = super().read(manifest)
        main = (
            _preset_container(body) if body is not None and _uses_kserve_preset(manifest) else None
        )
        if body is None or main is None:
            self._refuse_mixed_gang(manifest)
            return body
        script = f"{self._preset_command(manifest, main)}{_value(main)}"
        shown = {k: v for k, v in main.items() if k != "args"}
        return _with_main(body, {**shown, "command": ["/bin/bash", "-c", script, "--"]})

    def _refuse_mixed_gang(self, manifest: Json) -> None:
        """Refuse a gang of which only some pods show how they start.

        Otherwise only a part of the engine's pods would get a connector.
        """
        if not fieldpaths.get(manifest, (*self.steps, "worker")):
            return
        for below in ("template", "worker"):
            other = PodSpecBelow(self.steps, (below,)).read(manifest)
            if other is not None and (_preset_container(other) is not None or _has_command(other)):
                mine = super().read(manifest)
                if mine is not None and not _has_command(mine):
                    raise self._refused(
                        f"Only some pods of this engine show their command: {_advice(manifest)}."
                    )

    def write(self, manifest: Json, body: Json) -> Json:
        before = super().read(manifest)
        own = before is not None and _uses_kserve_preset(manifest)
        main = _preset_container(before) if before is not None and own else None
        if main is None:
            return super().write(manifest, body)
        head = self._preset_command(manifest, main)
        new = next(c for c in body["spec"]["containers"] if c.get("name") == _MAIN)
        script = new["command"][2]
        if new["command"] != ["/bin/bash", "-c", script, "--"] or not script.startswith(head):
            raise self._refused(
                "The command of a KServe preset cannot be changed here. Put the flags into "
                f"{ADDITIONAL}."
            )
        value, shown = script[len(head) :], _variable(new) or ""
        if shown.strip() == value.strip():  # what runs is kept to the letter
            value = shown
        env = [{**e, "value": value} if e["name"] == ADDITIONAL else e for e in new["env"]]
        rest = {k: v for k, v in new.items() if k not in ("command", "args")}
        args = {"args": main["args"]} if "args" in main else {}
        return super().write(manifest, _with_main(body, {**rest, **args, "env": env}))

    def _refused(self, why: str) -> Refused:
        return Refused(Reason.ARGS_NOT_PATCHABLE, why, field_path((*self.steps, *self.below)))

    def _preset_command(self, manifest: Json, main: Json) -> str:
        """Return the preset's command up to ADDITIONAL, after the container's args.

        What only KServe knows is left out: certificates and logs, but not ports.
        """
        component = fieldpaths.get_object(manifest, *self.steps)
        parallelism = fieldpaths.get_object(component, "parallelism")
        name = fieldpaths.get(manifest, ("spec", "model", "name"))
        name = name or fieldpaths.get(manifest, ("metadata", "name")) or ""
        words = [f"exec vllm serve /mnt/models --served-model-name {shlex.quote(str(name))}"]
        if component.get("worker"):
            words += ["--data-parallel-size", str(count(parallelism.get("data")))]
            words += ["--data-parallel-size-local", str(count(parallelism.get("dataLocal")))]
            words += ["--enable-expert-parallel"] if parallelism.get("expert") else []
            words += ["--headless"] if self.below == ("worker",) else []
        tensor = count(parallelism.get("tensor"))
        words += ["--tensor-parallel-size", str(tensor)] if tensor > 1 else []
        return " ".join([*words, *self._args(main)]) + " "

    def _args(self, main: Json) -> list[str]:
        """Return the container's args, which the preset puts after ADDITIONAL."""
        args = [str(word) for word in main.get("args") or ()]
        flags = {word.partition("=")[0] for word in args if word.startswith("--")}
        twice = flags & {word.partition("=")[0] for word in _value(main).split()}
        if twice or not all(_PLAIN.fullmatch(word) for word in args):
            raise self._refused(
                f"KServe's preset evaluates the container's args again, after {ADDITIONAL}. "
                f"{min(twice) + ' is in both. ' if twice else ''}Move the args there."
            )
        return args


def _uses_kserve_preset(manifest: Json) -> bool:
    """Return whether no other configuration can bring the command."""
    return not fieldpaths.get(manifest, ("spec", "baseRefs"))


def _preset_container(body: Json) -> Json | None:
    """Return the container that a preset completes and that sets ADDITIONAL."""
    containers = body["spec"].get("containers")
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, dict) and container.get("name") == _MAIN:
            completed = _variable(container) is not None and not container.get("command")
            fits = completed and isinstance(container.get("args") or [], list)
            return container if fits else None
    return None


def _has_command(body: Json) -> bool:
    containers = body["spec"].get("containers")
    return isinstance(containers, list) and any(
        isinstance(c, dict) and c.get("command") for c in containers
    )


def _variable(container: Json) -> str | None:
    """Return the literal value of ADDITIONAL, None where it has none."""
    env = container.get("env")
    if not isinstance(env, list) or not all(isinstance(e, dict) and "name" in e for e in env):
        return None
    values = [e.get("value", "") for e in env if e["name"] == ADDITIONAL and "valueFrom" not in e]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def _value(container: Json) -> str:
    return (_variable(container) or "").strip()


def _with_main(body: Json, main: Json) -> Json:
    containers = [main if c.get("name") == _MAIN else c for c in body["spec"]["containers"]]
    return {**body, "spec": {**body["spec"], "containers": containers}}
