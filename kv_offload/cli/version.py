"""`kv-offload version`."""

from importlib.metadata import version

import click


@click.command()
def command() -> None:
    """Print the version."""
    click.echo(version("function-kv-offload"))
