"""The corpus's cases, and what is done with one: wire it, start its engines.

A case (one document in `cases/*.yaml`) names a tier of `tiers.py` and holds
- `workload`: a manifest; `stepInput`: the step's Input, if any; `siblings`: what else is composed;
- `argv`: {template path: the starts of engines, each a list of words}: the exact command lines that
  run when the wired container is started, by a real shell where it is a script. Words that are
  mappings stand for JSON. `<tier>` stands for the tier's own connector. The templates named here
  are exactly those that are wired; [] is a template of the gang without an engine in its argv;
- `serve`: what an `llm_configs` entry of a RayService must hold besides;
- `container`: the serving container's index, 0 by default; `env`, `memory`: what else changes;
- or `refused`: the reason, and words of its message.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from function import workloads
from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.contract.backend import Backend, Description, Part, Tier
from function.contract.engine import Engine
from function.contract.gate import GateRow, Question, Rows
from function.contract.injection import Injection
from function.contract.recorded import Allowance
from function.pods import identify, offload_request, wire
from function.pods.siblings import SiblingResources
from function.problems import Problem
from function.workloads.model import Workload
from tests.corpus import tiers
from tests.unit.command import shells

Json = dict[str, Any]


def _cases() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for path in sorted(Path(__file__).with_name("cases").glob("*.yaml")):
        for case in yaml.safe_load_all(path.read_text()):
            name = f"{path.stem}: {case['name']}"
            assert name not in found, f"two cases are called {name}"
            found[name] = case
    return found


CASES = _cases()
WIRED = [name for name, case in CASES.items() if "argv" in case]
REFUSED = [name for name, case in CASES.items() if "refused" in case]


class NoRequest(Exception):
    """No engine in the workload asks for a tier."""


class FixedBackend(Backend[Any]):
    """Gives every engine one injection: versions are the gate's own tests' business."""

    field = "corpus"

    def __init__(self, tier: str) -> None:
        self.name = tier
        connector = (tiers.INJECTIONS[tier].connector or {}).get("kv_connector")
        self.allows = Allowance(connectors=frozenset([connector] if connector else ()))

    def problems(self, tier: Tier[Any]) -> list[Problem]:
        return []

    def parts(self, tier: Tier[Any]) -> list[Part]:
        return []

    def describe(self, tier: Tier[Any]) -> Description:
        return Description(outlives_pods=False)

    def gate(self, tier: Tier[Any], engine: Engine) -> Question:
        open_row = GateRow(self.name, engine.name, "the corpus", since="0", until="99")
        return Question(self.name, engine, Rows((open_row,)))

    def inject(self, tier: Tier[Any], engine: Engine) -> Injection:
        return tiers.INJECTIONS[self.name]

    def assumes(self, tier: Tier[Any], engine_name: str) -> dict[str, str]:
        return {k: v for k, v in tiers.INJECTIONS[self.name].flags.items() if v is not None}


def targeted(case: Json, manifest: Json) -> tuple[offload_request.OffloadRequest, Input]:
    """The case's workload as wiring is asked for it. Raises Refused, NoRequest."""
    step = Input.model_validate(case.get("stepInput", {}))
    siblings = SiblingResources.among(case.get("siblings", ()))
    found = offload_request.find(
        "engine", manifest, KVOffloadTierRef(name="chat"), step, "", siblings
    )
    if found is None:
        raise NoRequest
    if found.refused is not None:
        raise found.refused
    return found, step


def wired(case: Json, manifest: Json) -> wire.Wired:
    """The manifest wired to the case's tier. Raises Refused, NoRequest."""
    found, _ = targeted(case, manifest)
    spec: Any = SimpleNamespace(
        payload=None,
        backend=tiers.INJECTIONS[case["tier"]].backend,
        events=None,
        inference_cluster_ref=None,
        share_declared_identities=False,
    )
    tier = Tier("chat", "platform", "chat-00000", spec, spec)
    return wire.wire(found, tier, FixedBackend(case["tier"]), "chat-files")


def words(case: Json, start: list[Any]) -> list[Any]:
    return [tiers.connector(case["tier"]) if word == "<tier>" else word for word in start]


def starts(case: Json, container: Json, folder: Path) -> list[list[str]]:
    """What the container starts: by a real shell where its command is one."""
    env = {e["name"]: e["value"] for e in container.get("env", ()) if "value" in e}
    command = container.get("command")
    if not command:
        step = Input.model_validate(case.get("stepInput", {}))
        call = identify.image_call(container, step.engine_images)
        command = list(call.entrypoint) if call else []
    argv = [*command, *container.get("args", ())]
    shell = Path(argv[0]).name if argv else ""
    if shell in ("sh", "bash"):
        # A login shell would set its own PATH and find no recorder.
        argv = [word.replace("-lc", "-c") if i == 1 else word for i, word in enumerate(argv)]
        shells.install(folder)
        container = {"command": argv, "env": [{"name": k, "value": v} for k, v in env.items()]}
        return shells.run(container, shells.POSIX if shell == "sh" else shell, folder, {})
    return [[shells.expand(word, env) for word in argv]]


def find(case: Json, manifest: Json) -> Workload:
    paths = [p["path"] for p in case.get("stepInput", {}).get("paths", ())]
    found = workloads.find(manifest, paths)
    assert found is not None
    return found
