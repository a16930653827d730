"""`kv-offload status`: show every tier, and which workloads it wires."""

import json
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import click

from kv_offload.cli import kubectl
from kv_offload.cli.errors import Failed, user_errors
from kv_offload.render import emit, files, fleet_map
from kv_offload.render import status as states
from kv_offload.render.status import Status

_PATH = click.Path(path_type=Path, exists=True, allow_dash=True)
_SHOWN: dict[str, Callable[[Status], str]] = {
    "text": lambda found: "\n".join(states.lines(found)),
    "wide": lambda found: "\n".join(states.wide(found)),
    "json": lambda found: json.dumps(found.as_json(), indent=2, ensure_ascii=False),
    "yaml": lambda found: emit.to_yaml([found.as_json()]).rstrip(),
    "html": lambda found: fleet_map.page(found, datetime.now().astimezone()),
}


@click.command("status")
@click.argument("documents", type=_PATH, nargs=-1)
@click.option("--tier", default="", metavar="[NAMESPACE/]NAME", help="Only this tier or fleet.")
@kubectl.contexts
@click.option(
    "-o",
    "--output",
    type=click.Choice(list(_SHOWN)),
    default="text",
    show_default=True,
    help="html: a map of the fleet, one page without anything from elsewhere.",
)
@click.option("--watch", is_flag=True, help="Print again when something changes, until Ctrl-C.")
@click.option(
    "--every",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="With --watch.",
)
@user_errors()
def command(
    documents: tuple[Path, ...],
    tier: str,
    contexts: tuple[str, ...],
    output: str,
    watch: bool,
    every: int,
) -> None:
    """Show every tier of a control plane, what is wrong with it, and which workloads it wires.

    It asks the control plane through your kubectl. DOCUMENTS are read instead: files or folders
    with the output of `kubectl get -o yaml`, - for the standard input. It says what conditions say;
    hits are there with spec.observe. Exit code 1: a tier or workload has a problem. 2: there is no
    tier, or a control plane could not be read.

    \b
    Examples:
      kv-offload status
      kv-offload status --tier kv/chat --context prod -o json
      kv-offload status --context eu --context us -o html > fleet.html
    """
    kubectl.one_source(documents, contexts)
    if watch and documents:
        raise click.UsageError("--watch asks a control plane: it takes no documents")
    if watch and output == "html":
        raise click.UsageError("--watch prints no html: write the page anew instead")
    if watch:
        _watch(lambda quiet: _read((), contexts, tier, quiet)[0], _SHOWN[output], every)
    found, complete = _read(documents, contexts, tier)
    click.echo(_SHOWN[output](found))
    if not complete:
        click.echo("Not all kinds could be read: what is missing here is not known.", err=True)
    if found.has_problem or not complete:
        sys.exit(Failed.exit_code)


def _watch(read: Callable[[bool], Status], show: Callable[[Status], str], every: int) -> NoReturn:
    """Print what is read whenever it differs from the last; a failure is printed, and passes."""
    last = ""
    while True:
        try:
            shown = show(read(bool(last)))
        except files.InputError as error:
            shown = str(error)
        if shown != last:
            click.echo(f"--- {datetime.now():%H:%M:%S}\n{shown}")
        last = shown
        time.sleep(every)


def _read(
    documents: tuple[Path, ...], contexts: tuple[str, ...], tier: str, quiet: bool = False
) -> tuple[Status, bool]:
    """Return the state of all control planes, and whether all kinds could be read."""
    if documents:
        given = files.load_all(documents)
        found, complete = states.status(given, tier), True
    else:
        answers = [
            (context, kubectl.read([kubectl.TIERS, kubectl.USAGES], context, quiet))
            for context in dict.fromkeys(contexts or ("",))
        ]
        found = states.merged(states.status(d, tier, context) for context, (d, _) in answers)
        complete = all(each for _, (_, each) in answers)
    if not found.tiers:
        raise files.InputError(f"there is no KVOffloadTier {tier}".rstrip())
    return found, complete
