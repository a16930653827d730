"""Compare recorded wiring with the pods that run: a record may keep them, never add to them.

A record comes from outside, and whoever writes one may write any name or digest into it. What runs
was admitted to its cluster as it is. So a record is followed only where the observed workload has
everything already that following it would add to the desired one.

Rejected: a MAC over the record, whose key each control plane would have to keep, and the
composite's uid in it. A lost key or a restored control plane would unwire engines that run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from function import workloads
from function.api.input import Input
from function.kube import access, quantity
from function.kube.access import Json
from function.pods import offload_request, templates
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record
from function.pods.replay import is_same_workload, replay
from function.problems import Refused

# Not the record's choice: webhooks pin images on bare workloads.
_IMAGE = "image"
# Of an init container that wiring adds a record chooses these; the program is the function's own.
_INIT, _CHOSEN = "initContainers", ("name", "args")
# As many items of one name are compared: none has as many.
_MOST = 64
# Lists whose items mean something only as a whole.
_WHOLE = frozenset(
    {"env", "volumes", "volumeMounts", "ports", "resourceClaims", "claims"}
    | {"nodeSelectorTerms", "matchExpressions"}
)


def has(request: OffloadRequest, manifest: Json, running: Json) -> bool:
    """Return whether `running` has all that `manifest` has beyond the desired workload.

    `manifest`: the desired workload as its record wires it. `running`: the observed one, in which
    the API server, webhooks and others may have set more.
    """
    return is_same_workload(request, running) and any(
        _has(request.manifest, manifest, seen) for seen in _names(running, manifest)
    )


def _names(running: Json, like: Json) -> Iterator[Json]:
    """Yield a workload, and where that differs the one whose containers are called as in `like`."""
    yield running
    if (found := _renamed(running, like)) != running:
        yield found


def _renamed(running: Json, like: Json) -> Json:
    """Return a workload in which the only container of a pod has its name in `like`.

    KServe's webhook calls it kserve-container, Knative's user-container where it has no name.
    """
    out = dict(running)
    for key, value in running.items():
        other = like.get(key)
        if key != "containers" and isinstance(value, dict) and isinstance(other, dict):
            out[key] = _renamed(value, other)
        elif key == "containers" and len(found := access.objects(running, key)) == 1:
            ours = access.objects(like, key)
            unnamed = {name: part for name, part in found[0].items() if name != "name"}
            named = {name: part for each in ours for name, part in each.items() if name == "name"}
            out[key] = [unnamed | named] if len(ours) == 1 else value
    return out


def was_applied(
    request: OffloadRequest, record: Record, running: Json, step_input: Input, *, some: bool = False
) -> bool:
    """Return whether the pods that run are wired by this record: wiring them again adds nothing.

    `some`: the arguments of their engines are enough, where others took a part of it away, or whole
    templates.
    """
    return any(
        _was_applied(request, record, seen, step_input, some=some)
        for seen in _names(running, request.manifest)
    )


def _was_applied(
    request: OffloadRequest, record: Record, running: Json, step_input: Input, *, some: bool
) -> bool:
    try:
        workload = workloads.find(running, offload_request.paths(request.key, running, step_input))
        if workload is None or not is_same_workload(request, running):
            return False
        if some:
            there = {template.path for template in workload.templates}
            kept = {path: it for path, it in record.templates.items() if path in there}
            if not kept:
                return False
            record = replace(record, templates=kept)
        whole = running if request.is_bare else request.resource
        now = replace(request, resource=whole, manifest=running, workload=workload, engines=())
        again = replay(now, record, step_input)
        in_part = some and record.sets_arguments and _starts_alike(now, record, again, step_input)
        return in_part or _has(running, again, running)
    except Refused:
        return False


def _starts_alike(now: OffloadRequest, record: Record, manifest: Json, step_input: Input) -> bool:
    """Return whether the pods that run, which are `now`'s, start their engines as `manifest`."""
    places = offload_request.paths(now.key, manifest, step_input)
    try:
        ours, theirs = (
            templates.found(each, record.templates, places) for each in (manifest, now.manifest)
        )
    except Refused:
        return False
    found = (
        [_commands(each.get(path) or {}, kept.container) for each in (ours, theirs)]
        for path, kept in record.templates.items()
    )
    return all(now and now == then for now, then in found)


def _commands(template: Mapping[str, Any], container: str) -> list[tuple[Any, Any]]:
    return [
        (each.get("command"), each.get("args"))
        for each in access.objects(template, "spec", "containers")
        if each.get("name") == container
    ]


def _has(before: Any, after: Any, there: Any, key: str = "", is_quantity: bool = False) -> bool:
    """Return whether `there` has what `after` has and `before` has not. `key`: where they stand."""
    if after in (before, there):
        return True
    if isinstance(after, Mapping):
        old = before if isinstance(before, Mapping) else {}
        if not isinstance(there, Mapping):
            return not after and there is None
        return all(
            name == _IMAGE
            or _has(
                old.get(name), value, there.get(name), name, is_quantity or name in quantity.FIELDS
            )
            for name, value in after.items()
        )
    if isinstance(after, list) and all(isinstance(item, Mapping) for item in after):
        return _has_items(key, before, after, there)
    # The API server leaves out what is empty.
    return (not after and there is None) or (is_quantity and quantity.is_same(after, there))


def _pairs(before: Any, after: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the items that were added or changed, each with the one that it was."""
    old = before if isinstance(before, list) else []
    by_name = {str(item.get("name")): item for item in old if isinstance(item, Mapping)}
    for was, item in zip_longest(old[: len(after)], after):
        if was != item:
            yield by_name.get(str(item.get("name"))), item


def _has_items(key: str, before: Any, after: list[Any], there: Any) -> bool:
    """Return whether a list has the items: whole ones, or what was added to one that holds pods."""
    found: dict[str, list[Any]] = {}
    for item in there if isinstance(there, list) else ():
        if isinstance(item, Mapping):
            found.setdefault(_identity(item), []).append(item)
    for was, item in _pairs(before, after):
        if key == _INIT and was is None:
            item = {name: item[name] for name in _CHOSEN if name in item}
        was = None if key in _WHOLE else was
        same = found.get(_identity(item), ())[:_MOST]
        if not any(_has(was, item, other) for other in same):
            return False
    return True


def _identity(item: Mapping[str, Any]) -> str:
    return "/".join(str(item.get(part)) for part in ("name", "mountPath", "containerPort"))
