"""`kv-offload status`: show every tier, and which workloads it wires."""

import json
import sys
from pathlib import Path

import click

from kv_offload.cli import kubectl
from kv_offload.cli.errors import Failed, user_errors
from kv_offload.render import files

_PATH = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command("status")
@click.argument("documents", type=_PATH, nargs=-1)
@click.option("--tier", default="", metavar="[NAMESPACE/]NAME", help="Only this tier or fleet.")
@click.option("--context", default="", help="Context of the kubeconfig.  [default: the current]")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@user_errors()
def command(documents: tuple[Path, ...], tier: str, context: str, output: str) -> None:
    """Show every tier of a control plane, what is wrong with it, and which workloads it wires.

    It asks the control plane through your kubectl. DOCUMENTS are read instead: files or folders
    with the output of `kubectl get -o yaml`, - for the standard input. It says what conditions say;
    hits are in the engines' metrics. Exit code 1: a tier or workload has a
    problem. 2: there is no tier.

    \b
    Examples:
      kv-offload status
      kv-offload status --tier kv/chat --context prod -o json
    """
    from kv_offload.render import status

    given, complete = [d for path in documents for d in files.load_items(path)], True
    if not documents:
        given, complete = kubectl.read([kubectl.TIERS, kubectl.USAGES], context)
    found = status.status(given, tier)
    if not found.tiers:
        raise files.InputError(f"there is no KVOffloadTier {tier}".rstrip())
    if output == "json":
        click.echo(json.dumps(found.as_json(), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(status.lines(found)))
    if not complete:
        click.echo("Not all kinds could be read: what is missing here is not known.", err=True)
    if found.has_problem or not complete:
        sys.exit(Failed.exit_code)
