"""Read the Input of the function's step for commands that judge workloads by themselves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from function.api.base import parse
from function.api.input import KIND, Input
from kv_offload.render import files

Document = dict[str, Any]

OPTION = click.option(
    "--input",
    "input_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML file with the Input of the function's step: engineImages, paths, ...",
)


def load(path: Path | None, overrides: Mapping[str, str | None] | None = None) -> Input:
    """Return the Input in a file, or an empty one, with overrides. Raise InputError."""
    if path is None:
        return read({}, overrides)
    document = files.load_one(path, KIND)
    try:
        return read(document, overrides)
    except files.InputError as error:
        raise files.InputError(f"{path}: {error}") from error


def read(document: Document, overrides: Mapping[str, str | None] | None = None) -> Input:
    """Return the Input of a document with overrides. Raise InputError."""
    written = document | {k: v for k, v in (overrides or {}).items() if v}
    step_input, problems = parse(Input, written, "")
    if step_input is None or problems:
        raise files.InputError("; ".join(str(problem) for problem in sorted(problems)))
    return step_input
