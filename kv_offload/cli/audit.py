"""`kv-offload audit`: list the known faults that engines fall under."""

import json
import sys
from pathlib import Path

import click

from kv_offload.cli import step_input
from kv_offload.cli.errors import Failed, user_errors
from kv_offload.render import files

_PATH = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command("audit")
@click.argument("documents", type=_PATH, nargs=-1)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@step_input.OPTION
@user_errors()
def command(documents: tuple[Path, ...], output: str, input_file: Path | None) -> None:
    """List the known faults (docs/advisories.md) that the engines in DOCUMENTS fall under.

    DOCUMENTS are files or folders, as written, as rendered or as running; default: the standard
    input. They hold the tiers too. The cluster is not contacted. Exit code 1: an engine has a fault
    that the gate refuses today, or could not be judged. 2: no engine names a tier.

    \b
    Examples:
      kubectl get -A -o yaml kvoffloadtiers,objects.kubernetes.m.crossplane.io | kv-offload audit
      kv-offload audit tiers/ deployments/ -o json
    """
    from kv_offload.render import audit

    given = files.load_all(documents or (Path("-"),))
    found = audit.audit(given, step_input.load(input_file))
    if not found:
        raise files.InputError("no workload in the documents names a tier")
    if output == "json":
        shown = {"engines": [each.as_json() for each in found]}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        for each in found:
            click.echo("\n".join(audit.lines(each)))
    if any(each.refused or each.problem for each in found):
        sys.exit(Failed.exit_code)
