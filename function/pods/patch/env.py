"""Environment of the serving container: merged by name, order kept, ours after the user's.

Order matters: Kubernetes expands `$(VAR)` in a value only from variables that stand before it, and
of two variables with one name the last one counts (core/v1 EnvVar).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from function.contract.injection import Injection
from function.engines.ray_serve import RAY_COPY
from function.kube.access import Json
from function.pods.patch.draft import Draft, conflict, items

# `$(NAME)`, unless the dollar is escaped by another one.
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.][-A-Za-z0-9_.]*)\)")


def merge(draft: Draft, injection: Injection, brought: Sequence[Json] = ()) -> None:
    """Add the variables that are missing. Raise PodConflict for another value of one that is set.

    Directories are appended to a variable that lists them. `brought`: the variables that `envFrom`,
    which stays as it is, brings as far as is known.
    """
    lists = {*injection.search_paths, *([RAY_COPY] if injection.ray_env else ())}
    if not (injection.env or injection.env_if_absent or lists):
        return
    written = {e["name"]: e for e in items(draft.container, "env")}
    present: dict[str, Json] = {e["name"]: e for e in brought} | written
    adding: list[Json] = []
    for variable in injection.env:
        own = present.get(variable["name"])
        if own is not None and _meaning(own) != _meaning(variable):
            raise conflict(
                f"{variable['name']} is {_describe(own)}, and the tier needs it to be "
                f"{_describe(variable)}; remove it, or set it to that",
                draft.at(f"env[{variable['name']}]"),
            )
        adding += [] if variable["name"] in written else [dict(variable)]
    settled = present.keys() | {v["name"] for v in injection.env}
    adding += [dict(v) for v in injection.env_if_absent if v["name"] not in settled]
    draft.container["env"] += _ordered(adding)
    _check_order(draft, injection.env)
    lists = lists & present.keys() - written.keys()
    draft.container["env"] += [dict(present[name]) for name in sorted(lists)]
    for name, directories in sorted(injection.search_paths.items()):
        _append_missing(draft, name, directories.split(":"), ":")
    if injection.ray_env:
        _append_missing(draft, RAY_COPY, injection.ray_env, ",")
    if not draft.container["env"]:
        del draft.container["env"]


def references(text: object) -> list[str]:
    """Return the names that `$(NAME)` expansions in a value refer to, in order."""
    return [n for n in _REFERENCE.findall(text) if n] if isinstance(text, str) else []


def literals(container: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the variables by name, the last one winning; None for one that is no literal."""
    return {
        e["name"]: None if e.get("valueFrom") else str(e.get("value") or "")
        for e in container.get("env") or ()
        if isinstance(e, dict) and e.get("name")
    }


def _meaning(variable: Json) -> Any:
    source = variable.get("valueFrom")
    if not source:
        return variable.get("value") or ""
    field = source.get("fieldRef")
    # The API server fills the default in; a manifest may or may not spell it out.
    return {"fieldRef": {"apiVersion": "v1", **field}} if field else source


def _describe(variable: Json) -> str:
    source = variable.get("valueFrom")
    if not source:
        return repr(variable.get("value") or "")
    kind, reference = next(iter(source.items()))
    place = reference.get("fieldPath") or reference.get("resource")
    key = f"{reference.get('name', '')}/{reference.get('key', '')}"
    return f"taken from {kind} {place or key}"


def _ordered(adding: list[Json]) -> list[Json]:
    """Return the variables, each after those that it refers to; otherwise in order."""
    by_name = {v["name"]: v for v in adding}
    out: dict[str, Json] = {}

    def place(variable: Json, above: tuple[str, ...]) -> None:
        for name in references(variable.get("value")):
            if name in by_name and name not in above:
                place(by_name[name], (*above, name))
        out.setdefault(variable["name"], variable)

    for variable in adding:
        place(variable, (variable["name"],))
    return list(out.values())


def _check_order(draft: Draft, variables: Sequence[Json]) -> None:
    """Raise PodConflict where a needed variable refers to one that is defined only after it."""
    env = draft.container["env"]
    needed = {v["name"] for v in variables}
    last = {e["name"]: i for i, e in enumerate(env)}
    first = {e["name"]: i for i, e in reversed(list(enumerate(env)))}
    for name in needed:
        for reference in references(env[last[name]].get("value")):
            if reference in needed and first[reference] > last[name]:
                raise conflict(
                    f"{name} refers to $({reference}), which is defined only after it; put "
                    f"{reference} before it",
                    draft.at(f"env[{name}]"),
                )


def _append_missing(draft: Draft, name: str, wanted: Sequence[str], separator: str) -> None:
    """Append to a variable that is a list what it lacks of `wanted`."""
    env = draft.container["env"]
    for variable in reversed(env):
        if variable["name"] != name:
            continue
        if variable.get("valueFrom"):
            raise conflict(
                f"{name} does not hold a literal value, so {', '.join(wanted)} cannot be added "
                "to it; write its value here",
                draft.at(f"env[{name}]"),
            )
        have = [item.strip() for item in str(variable.get("value") or "").split(separator)]
        missing = [item for item in wanted if item not in have]
        if missing:
            # An empty directory of a search path means the working directory, and stays.
            kept = [item for item in have if item or (separator == ":" and len(have) > 1)]
            variable["value"] = separator.join([*kept, *missing])
        return
    env.append({"name": name, "value": separator.join(dict.fromkeys(wanted))})
