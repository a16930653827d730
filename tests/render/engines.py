"""The two engines that render a case: ours, in process, and Crossplane's own.

Both answer with the same thing: the documents the CLI prints, and after a failure one more document
of kind Failure with its message, so that goldens hold failures too.
"""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kv_offload.render import conditions, emit, files, reconcile
from kv_offload.render.merge import merged
from tests.render import core, standin
from tests.render.case import Case, Document, Pass
from tests.render.golden import FAILURE
from tests.render.servers import OURS

DEVELOPMENT = {"render.crossplane.io/runtime": "Development"}
_TARGET = "render.crossplane.io/runtime-development-target"
_FATAL = "pipeline returned fatal: "
_ERROR = "cannot render composite resource: "


@dataclass(frozen=True)
class State:
    """What a pass renders: the composite and what is observed of it."""

    xr: Document
    observed: Sequence[Document] = ()


@dataclass
class Answer:
    """`documents`: what is compared. The rest is what the next pass starts from."""

    documents: list[Document]
    failed: bool = False
    xr: Document = field(default_factory=dict)
    composed: list[Document] = field(default_factory=list)


def failure(kind: str, message: str) -> Document:
    """`kind` is Fatal (a step's fatal result) or Error (core fails without output)."""
    return {
        "apiVersion": "tests.kv-offload/v1",
        "kind": FAILURE,
        "severity": kind,
        "message": message,
    }


def embedded(case: Case, one: Pass, state: State) -> Answer:
    inputs = reconcile.Inputs(
        xr=state.xr,
        composition=case.composition(one),
        runners={name: _runner(name) for name in case.functions},
        observed=state.observed,
        required=case.documents(one.required),
        credentials=case.documents("credentials"),
        schemas=case.documents("schemas"),
    )
    try:
        rendered = reconcile.render(inputs)
    except reconcile.RenderError as error:
        return Answer([failure("Error", str(error))], failed=True)
    if rendered.fatal:
        return Answer([rendered.xr, failure("Fatal", rendered.fatal)], True, rendered.xr)
    documents = [merged(state.xr, rendered.xr) if case.full_xr else rendered.xr]
    documents += rendered.composed
    if case.results:
        documents += rendered.results()
    if case.context:
        documents.append(reconcile.context_document(rendered))
    return Answer(documents, False, documents[0], rendered.composed)


def _runner(name: str) -> Any:
    if name == standin.NAME:
        return standin.StandIn()
    if name != OURS:
        raise files.InputError(f"no stand-in for the function {name}: use {standin.NAME}")
    from function.fn import FunctionRunner

    return FunctionRunner(clock=lambda: conditions.NOW)


class Crossplane:
    """`crossplane composition render` with core's binary; `addresses`: where functions serve."""

    def __init__(self, cli: Path, core_binary: Path, addresses: Mapping[str, str]) -> None:
        self.cli = cli
        self.core = core_binary
        self.addresses = addresses

    def __call__(self, case: Case, one: Pass, state: State) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            done = self._run(case, one, state, Path(folder))
        if done.returncode == 0:
            documents = files.parse(done.stdout, "crossplane")
            kinds = ("Result", "Context")
            composed = [d for d in documents[1:] if d["kind"] not in kinds]
            return Answer(documents, False, documents[0], composed)
        if _FATAL in done.stderr:
            return self._fatal(case, one, state)
        if _ERROR not in done.stderr:
            raise RuntimeError(f"{case.name}: crossplane: {done.stderr}")
        message = done.stderr.rpartition(_ERROR)[2].strip()
        # The CLI indents what core said, and adds core's exit code on a line of its own.
        lines = [line.strip() for line in message.splitlines()]
        message = "\n".join(line for line in lines if not line.startswith(": exit status"))
        return Answer([failure("Error", message)], failed=True)

    def _run(
        self, case: Case, one: Pass, state: State, folder: Path
    ) -> subprocess.CompletedProcess[str]:
        def put(name: str, documents: Sequence[Document]) -> str:
            (folder / name).write_text(emit.to_yaml(documents))
            return str(folder / name)

        functions = [_function(n, a) for n, a in sorted(self.addresses.items())]
        command = [str(self.cli), "composition", "render", put("xr.yaml", [state.xr])]
        command += [put("composition.yaml", [case.composition(one)])]
        command += [put("functions.yaml", functions), f"--crossplane-binary={self.core}"]
        if state.observed:
            command += ["--observed-resources", put("observed.yaml", state.observed)]
        for part, flag in ((one.required, "-e"), ("credentials", "--function-credentials")):
            if case.documents(part):
                command += [flag, put(f"{flag}.yaml", case.documents(part))]
        if case.path("schemas").is_dir():
            command += ["-s", str(case.path("schemas"))]
        command += ["-r"] * case.results + ["-x"] * case.full_xr + ["-c"] * case.context
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    def _fatal(self, case: Case, one: Pass, state: State) -> Answer:
        xr, _ = core.render(
            self.core,
            state.xr,
            case.composition(one),
            self.addresses,
            state.observed,
            case.documents(one.required),
            case.documents("schemas"),
            case.documents("credentials"),
        )
        synced = next(c for c in xr["status"]["conditions"] if c["type"] == "Synced")
        message = synced["message"].removeprefix("cannot compose resources: ")
        conditions.fix_times(xr)
        return Answer([xr, failure("Fatal", message)], True, xr)


def _function(name: str, address: str) -> dict[str, Any]:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {"name": name, "annotations": DEVELOPMENT | {_TARGET: address}},
        "spec": {"package": f"example.org/{name}:v0.0.0"},
    }
