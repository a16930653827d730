"""Whether the cluster has what an Object is to bring there, as far as the Object shows it."""

from collections.abc import Callable

from function.edge.request import Call
from function.kube import access, objects
from function.kube.access import Json
from function.problems import cut

# How long a provider may take for a new generation: one that starts again has thousands to read.
_SECONDS = 300
_LONGEST_WHY = 512

_DIFFERS = (
    "the provider has written the Object, and what is there differs: somebody edited it, or a"
    " webhook takes it away. Undo the edit, or have the webhook leave it alone."
)
_NOT_READ = (
    "provider-kubernetes has not read the Object's newest edit for minutes. See whether its pod"
    " runs, and its log."
)


def problem(call: Call, key: str, desired: Json, has: Callable[[Json], bool]) -> str:
    """Return why the cluster lacks what an observed Object brings, "" where it has it or soon will.

    `has`: whether a manifest has it.
    """
    there: Json = {}
    if has(without_status(call, key, objects.STATUS_MANIFEST)) or has(
        there := access.mapping(call.observed_value(key, *objects.STATUS_MANIFEST))
    ):
        return ""  # what is not written is another field, or how a value is put
    # Where nobody desires policies, an edit of those on the Object stays.
    path = ("spec", "managementPolicies")
    policies = access.at(desired, *path) or call.observed_value(key, *path)
    is_read_only = not objects.may_write(policies, exists=bool(there))
    why = f"its spec.managementPolicies are {policies}" if is_read_only else call.refused_write(key)
    if is_read_only or (why and not call.is_applied(key)):
        return f"provider-kubernetes does not write the Object: {cut(why, _LONGEST_WHY)}."
    if not has(access.mapping(call.observed_value(key, *objects.MANIFEST))):
        return ""  # core writes it after this call
    return _why_not_there(call, key, is_shown=bool(there))


def without_status(call: Call, key: str, at: tuple[str, ...]) -> Json:
    """Return of an Object's manifest, at that path, what seldom changes: most have no more."""
    return {
        "apiVersion": call.observed_value(key, *at, "apiVersion"),
        "kind": call.observed_value(key, *at, "kind"),
        "metadata": {"namespace": call.observed_value(key, *at, "metadata", "namespace")},
        "spec": call.observed_part(key, *at, "spec"),
        "data": call.observed_part(key, *at, "data"),
    }


def _why_not_there(call: Call, key: str, *, is_shown: bool) -> str:
    """Return why the cluster lacks what the Object has, "" while the provider may still write it.

    Some providers write no generation into the condition. `is_shown`: whether the Object shows what
    is on the cluster.
    """
    synced = call.observed_whole_condition(key, "Synced")
    applied = synced.get("observedGeneration")
    is_written = synced and applied in (None, call.observed_value(key, "metadata", "generation"))
    if applied is None or not is_written:
        written = _last_written(call, key)
        if not written or not call.has_passed(written + _SECONDS):
            return ""
    if is_written:
        return _DIFFERS if is_shown else ""
    return _NOT_READ


def _last_written(call: Call, key: str) -> float:
    """Return when anything but the status was written last, 0.0 where nothing says so."""
    entries = access.objects(call.observed_value(key, "metadata", "managedFields"))
    return access.latest(entry.get("time") for entry in entries if not entry.get("subresource"))
