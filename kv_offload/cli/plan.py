"""`kv-offload plan`: show what an edit of a tier would do before it is applied."""

import sys
from pathlib import Path

import click

from kv_offload.cli.errors import Fatal, user_errors
from kv_offload.render import emit, files

_EXISTING = click.Path(path_type=Path, exists=True)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)


@click.command("plan")
@click.argument("new", type=_FILE)
@click.option(
    "--now",
    type=_FILE,
    required=True,
    help="The tier as it is: `kubectl get kvoffloadtier NAME -o yaml`, or the file before the"
    " edit; - reads it from the standard input.",
)
@click.option(
    "-e",
    "--required",
    type=_EXISTING,
    multiple=True,
    help="Other objects that the tier names; for a fleet its InferenceClusters, and its children"
    " and Usages if you have them. A YAML file or a directory of them; repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["tree", "yaml", "json"]),
    default="tree",
    show_default=True,
    help="yaml and json have a document for each effect, for a check in CI.",
)
@user_errors()
def command(new: Path, now: Path, required: tuple[Path, ...], output: str) -> None:
    """Show what applying the tier in NEW would refuse, restart, change and leave running.

    Nothing is looked up: effects that depend on whether consumers use the tier say so. With the
    clusters of a fleet it shows which join, leave, and take the edit after which. Exit code 3: the
    edit is refused, or conflicts with another tier.

    \b
    Examples:
      kv-offload plan tier.yaml --now <(git show main:tier.yaml)
      kubectl get kvoffloadtier shared -n kv -o yaml | kv-offload plan tier.yaml --now -
      kubectl get -A -o yaml \\
          inferenceclusters,kvoffloadtiers,usages.protection.crossplane.io > fleet.yaml
      kv-offload plan tier.yaml --now old.yaml -e fleet.yaml
    """
    from kv_offload.render import effects as effect_types
    from kv_offload.render import plan, tree

    if str(new) == str(now) == "-":
        raise files.InputError("only one of the tier and --now can be read from -")
    tier = files.load_one(new, "tier")
    running = files.load_one(now, "tier")
    given = files.load_all(required)
    effects = plan.plan(running, tier, given, str(new))
    if output == "tree":
        tree.write(plan.as_tree(tier, effects), sys.stdout)
    else:
        write = emit.to_json if output == "json" else emit.to_yaml
        click.echo(write([effect.to_json() for effect in effects]), nl=False)
    if any(effect.verb in effect_types.FAILS for effect in effects):
        sys.exit(Fatal.exit_code)
