"""`kv-offload doctor`: check that our step runs, and that it will keep running."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from kv_offload.cli import kubectl
from kv_offload.cli.errors import Failed, user_errors
from kv_offload.render import defaults, doctor, files

_KINDS = (
    "compositions.apiextensions.crossplane.io",
    "compositionrevisions.apiextensions.crossplane.io",
    "functions.pkg.crossplane.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
)
_PATH = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command("doctor")
@click.argument("documents", type=_PATH, nargs=-1)
@click.option(
    "--function-name",
    default=defaults.FUNCTION,
    show_default=True,
    help="Name of the installed Function.",
)
@click.option("--context", default="", help="Context of the kubeconfig.  [default: the current]")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@user_errors()
def command(documents: tuple[Path, ...], function_name: str, context: str, output: str) -> None:
    """Check that our step runs for all composites, and that it will keep running.

    It asks the control plane through your kubectl. DOCUMENTS are read instead: files or folders
    with the output of `kubectl get -o yaml`, - for the standard input. Crossplane keeps a condition
    after its step has left the pipeline: trust KVOffloadReady only if this command finds no
    problem. Exit code 1: a problem. 2: there is nothing of ours.

    \b
    Examples:
      kv-offload doctor --context prod
    """
    found = [d for path in documents for d in files.load(path)]
    if not documents:
        found, complete = kubectl.read(_KINDS, context)
        if not complete:
            raise files.InputError("not all kinds could be read; see kubectl's message")
    report = doctor.examine(found, function_name)
    if not report.examined:
        raise files.InputError(
            "there is no Composition with our step, and no composite with its condition. Documents "
            f"must hold the composites and: {', '.join((kubectl.XRDS, *_KINDS))}"
        )
    if output == "json":
        findings = [asdict(finding) for finding in report.findings]
        shown = {"findings": findings, "healthy": report.healthy}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    for finding in report.findings if output == "text" else ():
        mark = "✘" if finding.is_problem else "·"
        click.echo(f"{mark} {finding.subject}: {finding.message}")
    if any(finding.is_problem for finding in report.findings):
        sys.exit(Failed.exit_code)
    if output == "text":
        click.echo(f"✔ {report.healthy} composites run with our step in their pipelines.")
