"""Refuse a pod whose own command takes a variable of the tier from its engine, or replaces it."""

import re
from collections.abc import Mapping
from typing import Any

from function import command
from function.command import Change, Program
from function.command.model import shown
from function.contract.injection import Injection, Json
from function.kube import access
from function.problems import Refused
from function.reasons import Reason

# Of a shell: $NAME, ${NAME...}; of Kubernetes: $(NAME).
_REFERENCE = re.compile(r"\$([{(]?)([A-Za-z_][A-Za-z0-9_]*)")


def check(program: Program, injection: Injection, path: str) -> None:
    """Raise Refused (PodConflict) at the first one. `path`: of the command in its template."""
    variables = {variable["name"]: variable for variable in injection.env}
    paths = _search_paths(injection)
    for name, change in command.changes(program, [*variables, *paths]):
        if name in paths:
            _check_search_path(change, name, injection.payload is not None, path)
        else:
            _check_variable(change, variables[name], path)


def check_ray(entry: Mapping[str, Any], injection: Injection) -> None:
    """Raise Refused for variables of a Ray Serve entry's runtime environment."""
    own = access.mapping(entry, "runtime_env", "env_vars")
    for name in _search_paths(injection):
        # Ray expands ${NAME} there.
        if name in own:
            change = Change(f"{name}={own[name]}", str(own[name]), scripted=True)
            _check_search_path(change, name, injection.payload is not None, "runtime_env.env_vars")


def _search_paths(injection: Injection) -> list[str]:
    payload = {"PYTHONPATH"} if injection.payload is not None else set()
    return sorted({*injection.search_paths, *payload})


def _check_variable(change: Change, variable: Json, path: str) -> None:
    name = variable["name"]
    if change.value is None:
        raise _refused(
            f"the engine does not get {name}, which the tier sets; remove it", change, path
        )
    plain = change.value.strip("\"'")
    if plain != variable.get("value") and not _begins_with(change, name):
        why = f"the tier needs {name} as it sets it; remove the assignment"
        raise _refused(why, change, path)


def _check_search_path(change: Change, name: str, first: bool, path: str) -> None:
    if change.value is None:
        what = f"Python does not search {name}, where it finds what the tier adds; remove it"
        raise _refused(what, change, path)
    if _begins_with(change, name) or (not first and _holds(change, name)):
        return
    reference = f"${name}" if change.scripted else f"$({name})"
    what = "is searched first" if _holds(change, name) else "replaces it"
    raise _refused(
        f"it {what}, and Python finds what the tier adds by {name}; begin the value with "
        f"{reference}: instead",
        change,
        path,
    )


def _begins_with(change: Change, name: str) -> bool:
    """Return whether the new value begins with the old one."""
    return _is_reference(_REFERENCE.match((change.value or "").removeprefix('"')), change, name)


def _holds(change: Change, name: str) -> bool:
    text = "" if (change.value or "").startswith("'") else change.value or ""
    return any(_is_reference(found, change, name) for found in _REFERENCE.finditer(text))


def _is_reference(found: re.Match[str] | None, change: Change, name: str) -> bool:
    return found is not None and found[2] == name and (change.scripted or found[1] == "(")


def _refused(why: str, change: Change, path: str) -> Refused:
    return Refused(Reason.POD_CONFLICT, f"{shown(change.text)}: {why}", path)
