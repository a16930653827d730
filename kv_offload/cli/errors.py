"""Errors for people: a message on stderr and an exit code, never a traceback."""

import contextlib
import errno
from collections.abc import Iterator

import click

from kv_offload.render.files import InputError


class Failed(click.ClickException):
    """Crossplane would fail, or a problem was found; printed as `Error: MESSAGE`."""

    exit_code = 1


class Unusable(click.ClickException):
    """The usage is wrong, or the input cannot be used."""

    exit_code = 2


class Fatal(click.ClickException):
    """The function refused."""

    exit_code = 3


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """End the command with exit code 2 for unusable input, with 1 for output that is not taken."""
    try:
        yield
    except InputError as error:
        raise Unusable(str(error)) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # click ends quietly where the reader has left
        raise Failed(f"the output cannot be written: {error.strerror}") from error
