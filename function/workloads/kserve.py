"""KServe's LLMInferenceService: pods whose command stands in a preset of KServe's own.

A service names an image and variables; the presets (LLMInferenceServiceConfig) bring the command:
a script that evaluates `vllm serve /mnt/models ... ${VLLM_ADDITIONAL_ARGS} $@`. Those for one node
read that variable from KServe 0.18 on, and before run `vllm serve` without it: a service that sets
it says that its presets read it. Read in config/llmisvc and config/llmisvcconfig of 0.16 to 0.19.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from function.problems import Refused, field_path
from function.reasons import Reason
from function.workloads import fieldpaths
from function.workloads.fieldpaths import Steps
from function.workloads.model import DECODE, PREFILL, UNIFIED, Slot
from function.workloads.roles import count, leader_and_workers
from function.workloads.views import Beside

Json = dict[str, Any]

ADDITIONAL = "VLLM_ADDITIONAL_ARGS"
_MAIN = "main"
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
ADVICE = (
    f"set {ADDITIONAL} in the env of container {_MAIN} (it may be empty), which KServe's presets "
    "read from 0.18 on, in place of a configuration of your own (spec.baseRefs); or write the "
    "container's command"
)


def slots(manifest: Json) -> Iterable[Slot]:
    """Without `prefill` the workload is unified; with it the top level is the decode workload."""
    prefill = fieldpaths.get(manifest, ("spec", "prefill")) is not None
    parts: tuple[tuple[Steps, str, str], ...] = (
        (("spec",), "decode" if prefill else "", DECODE if prefill else UNIFIED),
        (("spec", "prefill"), "prefill", PREFILL),
    )
    for at, name, phase in parts:
        component = fieldpaths.get(manifest, at)
        if not isinstance(component, dict):
            continue
        where = field_path(at)
        workers = (_size(component) - 1) if component.get("worker") else 0
        yield from leader_and_workers(
            Slot(f"{where}.template", Preset(at, ("template",)), advice=ADVICE, preset=_MAIN),
            Slot(f"{where}.worker", Preset(at, ("worker",)), advice=ADVICE, preset=_MAIN),
            workers,
            phase,
            name,
        )


def _size(component: Json) -> int:
    """Pods of a KServe gang: data/dataLocal, or the pipeline's stages; a worker means two."""
    parallelism = fieldpaths.get_object(component, "parallelism")
    data, local = count(parallelism.get("data")), count(parallelism.get("dataLocal"))
    return max(2, data // max(local, 1), count(parallelism.get("pipeline")))


@dataclass(frozen=True)
class Preset(Beside):
    """The pods with the preset's command made visible; what is added to it goes to ADDITIONAL.

    The preset evaluates ADDITIONAL and the container's args as text, so they stand in the script
    that is shown as they are.
    """

    def read(self, manifest: Json) -> Json | None:
        body = super().read(manifest)
        main = _main(body) if body is not None and _own(manifest) else None
        if body is None or main is None:
            self._no_half(manifest)
            return body
        script = f"{self._head(manifest, main)}{_value(main)}"
        shown = {k: v for k, v in main.items() if k != "args"}
        return _with_main(body, {**shown, "command": ["/bin/bash", "-c", script, "--"]})

    def _no_half(self, manifest: Json) -> None:
        """Of leader and workers all must show how they start, or none: else half of an engine would
        be given a connector."""
        if not fieldpaths.get(manifest, (*self.steps, "worker")):
            return
        for below in ("template", "worker"):
            other = Beside(self.steps, (below,)).read(manifest)
            if other is not None and (_main(other) is not None or _has_command(other)):
                mine = super().read(manifest)
                if mine is not None and not _has_command(mine):
                    where = field_path((*self.steps, *self.below))
                    raise Refused(
                        Reason.ARGS_NOT_PATCHABLE,
                        f"only some pods show how they start: {ADVICE}",
                        where,
                    )

    def write(self, manifest: Json, body: Json) -> Json:
        before = super().read(manifest)
        main = _main(before) if before is not None and _own(manifest) else None
        if before is None or main is None:
            return super().write(manifest, body)
        head = self._head(manifest, main)
        new = next(c for c in body["spec"]["containers"] if c.get("name") == _MAIN)
        script = new["command"][2]
        if new["command"] != ["/bin/bash", "-c", script, "--"] or not script.startswith(head):
            raise Refused(
                Reason.ARGS_NOT_PATCHABLE,
                "the preset's own command cannot be changed from here; give the flags by "
                f"{ADDITIONAL}",
                field_path((*self.steps, *self.below)),
            )
        value = script[len(head) :]
        env = [{**e, "value": value} if e["name"] == ADDITIONAL else e for e in new["env"]]
        shown = {k: v for k, v in new.items() if k not in ("command", "args")}
        args = {"args": main["args"]} if "args" in main else {}
        return super().write(manifest, _with_main(body, {**shown, **args, "env": env}))

    def _head(self, manifest: Json, main: Json) -> str:
        """What the preset starts, up to where ADDITIONAL stands, less what only KServe knows (ports
        aside: certificates, logs). The container's args are moved before it."""
        component = fieldpaths.get_object(manifest, *self.steps)
        parallelism = fieldpaths.get_object(component, "parallelism")
        name = fieldpaths.get(manifest, ("spec", "model", "name"))
        name = name or fieldpaths.get(manifest, ("metadata", "name")) or ""
        words = [
            "exec",
            "vllm",
            "serve",
            "/mnt/models",
            "--served-model-name",
            shlex.quote(str(name)),
        ]
        if component.get("worker"):
            words += ["--data-parallel-size", str(count(parallelism.get("data")))]
            words += ["--data-parallel-size-local", str(count(parallelism.get("dataLocal")))]
            words += ["--enable-expert-parallel"] if parallelism.get("expert") else []
            words += ["--headless"] if self.below == ("worker",) else []
        tensor = count(parallelism.get("tensor"))
        words += ["--tensor-parallel-size", str(tensor)] if tensor > 1 else []
        return " ".join([*words, *self._args(main)]) + " "

    def _args(self, main: Json) -> list[str]:
        """The container's args, which come after ADDITIONAL, where their order does not matter."""
        args = [str(word) for word in main.get("args") or ()]
        flags = {word.partition("=")[0] for word in args if word.startswith("--")}
        twice = flags & {word.partition("=")[0] for word in _value(main).split()}
        if twice or not all(_PLAIN.fullmatch(word) for word in args):
            raise Refused(
                Reason.ARGS_NOT_PATCHABLE,
                f"KServe's preset evaluates the container's args once more, behind {ADDITIONAL}: "
                f"move them there{', ' + min(twice) + ' stands in both' if twice else ''}",
                field_path((*self.steps, *self.below)),
            )
        return args


def _own(manifest: Json) -> bool:
    """Whether the command is a preset's of KServe's, and no other configuration can bring one."""
    return not fieldpaths.get(manifest, ("spec", "baseRefs"))


def _main(body: Json) -> Json | None:
    """The container that a preset completes, if the service says that it reads ADDITIONAL."""
    containers = body["spec"].get("containers")
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, dict) and container.get("name") == _MAIN:
            told = _variable(container) is not None and not container.get("command")
            return container if told and isinstance(container.get("args") or [], list) else None
    return None


def _has_command(body: Json) -> bool:
    containers = body["spec"].get("containers")
    return isinstance(containers, list) and any(
        isinstance(c, dict) and c.get("command") for c in containers
    )


def _variable(container: Json) -> str | None:
    """The literal value of ADDITIONAL, None where it is not set by one."""
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
