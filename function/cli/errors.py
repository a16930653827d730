"""Errors for people: one line on stderr and an exit code, never a traceback."""

import contextlib
from collections.abc import Iterator

import click

from function.render.files import InputError

FAILED, USAGE, FATAL = 1, 2, 3


class Failure(click.ClickException):
    """Printed as `Error: MESSAGE`; `exit_code` is one of FAILED, USAGE and FATAL."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Input that cannot be used ends the command with exit code 2."""
    try:
        yield
    except InputError as error:
        raise Failure(str(error), USAGE) from error
