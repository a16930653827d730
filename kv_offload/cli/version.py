"""`kv-offload version`."""

from importlib.metadata import version

import click

from kv_offload.cli.errors import user_errors


@click.command()
@user_errors()
def command() -> None:
    """Print the version."""
    click.echo(version("function-kv-offload"))
