"""`kv-offload add-step`: our step in a platform's own copy of a Composition."""

from pathlib import Path

import click

from function.cli.errors import user_errors
from function.render import append, defaults, files


@click.command("add-step")
@click.argument("composition", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-w", "--write", is_flag=True, help="Change the file; without it, print the result.")
@click.option(
    "--function-name",
    default=defaults.FUNCTION,
    show_default=True,
    help="Name of the installed Function.",
)
@click.option("--step-name", default="kv-offload", show_default=True, help="Name of the new step.")
@user_errors()
def command(composition: Path, write: bool, function_name: str, step_name: str) -> None:
    """Append our step to the end of a Composition's pipeline.

    COMPOSITION is your own copy: Crossplane undoes an edit of a Composition that a package brought,
    and picks one of two Compositions for the same kind at random. Only three lines are added; a
    Composition that has the step already is left as it is. With Modelplane the step belongs into
    ModelReplica's Composition.

    \b
    Examples:
      kv-offload add-step modelreplica.yaml > mine.yaml
      kv-offload add-step --write modelreplica.yaml
    """
    text = _read(composition)
    changed = append.append_step(text, str(composition), step_name, function_name)
    kind = _kind(changed, str(composition))
    if kind == "ModelDeployment":
        click.echo(
            "Note: with Modelplane the pods appear in ModelReplica's pipeline, not in"
            " ModelDeployment's: the step belongs there.",
            err=True,
        )
    if not write:
        click.echo(changed, nl=False)
    elif changed == text:
        click.echo(f"{composition}: has the step already", err=True)
    else:
        _write(composition, changed)
        click.echo(f"{composition}: step {step_name} added", err=True)


def _kind(text: str, where: str) -> str:
    found = (d for d in files.parse(text, where) if d.get("kind") == "Composition")
    return str(next(found)["spec"].get("compositeTypeRef", {}).get("kind"))


def _read(path: Path) -> str:
    """The text with its own line ends."""
    files.read_text(path)  # the errors for people
    return path.read_bytes().decode()


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise files.InputError(f"{path}: {error.strerror or error}") from error
