"""Checks of hostPath directories: a tier may not use directories of the node."""

from dataclasses import dataclass

from function.facts import Table
from function.problems import Problem


@dataclass(frozen=True)
class HostPaths:
    """Directories that belong to the node, and those that others use too."""

    node: tuple[str, ...]
    shared: tuple[str, ...]


_ROWS = Table(HostPaths, "host_paths", "host_paths")


def normalise(path: str) -> str:
    """Return an absolute path without empty parts and dots.

    `..` stays, for `find_problem` to refuse.
    """
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def find_problem(path: str, field: str) -> Problem | None:
    """Return the problem of a hostPath that `field` names, None for a valid one."""
    at, (taken,) = normalise(path), _ROWS
    if ".." in at.split("/"):
        return Problem(field, "must not contain ..")
    above = any(own.startswith(f"{at.rstrip('/')}/") for own in taken.node)
    if above or any(at == own or at.startswith(f"{own}/") for own in taken.node):
        return Problem(field, f"{at} belongs to the node: choose a directory of the tier's own")
    if at in taken.shared:
        return Problem(field, f"{at} is not the tier's alone: choose a directory below it")
    return None
