"""`kv-offload doctor`: check that our step runs, and that it will keep running."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from kv_offload.cli import kubectl
from kv_offload.cli.errors import Failed, user_errors
from kv_offload.render import doctor, emit, files

_KINDS = (
    "compositions.apiextensions.crossplane.io",
    "compositionrevisions.apiextensions.crossplane.io",
    "functions.pkg.crossplane.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
)
_PATH = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command("doctor")
@click.argument("documents", type=_PATH, nargs=-1)
@click.option(
    "--function-name",
    default="",
    help="Name of the installed Function; by default the one of our package.",
)
@kubectl.contexts
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True
)
@user_errors()
def command(
    documents: tuple[Path, ...], function_name: str, contexts: tuple[str, ...], output: str
) -> None:
    """Check that our step runs for all composites, and that it will keep running.

    It asks the control plane through your kubectl. DOCUMENTS are read instead: files or folders
    with the output of `kubectl get -o yaml`, - for the standard input. Crossplane keeps a condition
    after its step has left the pipeline: trust KVOffloadReady only if this command finds no
    problem. Exit code 1: a problem. 2: there is nothing of ours.

    \b
    Examples:
      kv-offload doctor --context prod
    """
    kubectl.one_source(documents, contexts)
    reports = {
        context: _examine(documents, function_name, context)
        for context in dict.fromkeys(contexts or ("",))
    }
    findings = [(context, f) for context, report in reports.items() for f in report.findings]
    healthy = sum(report.healthy for report in reports.values())
    if output != "text":
        rows = [{"context": context, **asdict(finding)} for context, finding in findings]
        shown = {"findings": rows, "healthy": healthy}
        as_json = output == "json"
        text = json.dumps(shown, indent=2, ensure_ascii=False) if as_json else emit.to_yaml([shown])
        click.echo(text.rstrip())
    for context, finding in findings if output == "text" else ():
        mark = "✘" if finding.is_problem else "·"
        where = f"{context}: " if len(reports) > 1 else ""
        click.echo(f"{mark} {where}{finding.subject}: {finding.message}")
    if any(finding.is_problem for _, finding in findings):
        sys.exit(Failed.exit_code)
    if output == "text" and healthy:
        click.echo(f"✔ {healthy} composites run with our step in their pipelines.")
    elif output == "text":
        click.echo("· No composite here runs with our step.")


def _examine(documents: tuple[Path, ...], function_name: str, context: str) -> doctor.Report:
    """Return what documents or a control plane show; raise InputError where that is nothing."""
    found = [d for path in documents for d in files.load(path)]
    if not documents:
        found, complete = kubectl.read(_KINDS, context)
        if not complete:
            raise files.InputError("not all kinds could be read; see kubectl's message")
    report = doctor.examine(found, function_name)
    if not report.examined:
        raise files.InputError(
            "there is no Composition with our step, and no composite with its condition"
            + (f" in context {context}" if context else "")
            + f". Documents must hold the composites and: {', '.join((kubectl.XRDS, *_KINDS))}"
        )
    return report
