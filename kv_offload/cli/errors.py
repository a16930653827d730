"""Errors for people: one line on stderr and an exit code, never a traceback."""

import contextlib
from collections.abc import Iterator

import click

from kv_offload.render.files import InputError


class Failed(click.ClickException):
    """Crossplane would fail. Printed as `Error: MESSAGE`, like those below."""

    exit_code = 1


class Unusable(click.ClickException):
    """Wrong usage, or input that cannot be used."""

    exit_code = 2


class Fatal(click.ClickException):
    """The function refused, by a fatal result."""

    exit_code = 3


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Input that cannot be used ends the command with exit code 2."""
    try:
        yield
    except InputError as error:
        raise Unusable(str(error)) from error
