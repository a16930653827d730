"""Say which parts of a composite the provider no longer sees, or not yet on another cluster.

Every try has another error, and crossplane-runtime renews a condition's time with its message. The
message of the first try is repeated, so that a status does not change with each poll.
"""

from collections.abc import Collection, Iterable

from function.composers.conditions import REASON_NOT_OBSERVED
from function.edge.answer import UNKNOWN, Condition
from function.edge.request import Call
from function.kube import access

# How much of what the cluster said is quoted, for each part.
MAX_QUOTED = 512

_BEGIN = "Looks fail since "


def quoted(errors: Iterable[tuple[str, str]]) -> str:
    """Return what the cluster said of each part, "" where it said nothing. `errors`: by key."""
    return "; ".join(f"{key}: {said[:MAX_QUOTED]}" for key, said in errors if said)


def not_observed(call: Call, kind: str, keys: Iterable[str], cluster: str) -> Condition | None:
    """Return Unknown, and since when, if the provider no longer sees one of the parts."""
    found = sorted((since, key) for key in keys if (since := call.unseen_since(key)))
    if not found:
        return None
    message = _said_before(call, kind, {key for _, key in found})
    if not message:
        since, key = found[0]
        message = (
            f"{_BEGIN}{since}: {key}: {call.refused_write(key)[:MAX_QUOTED]}."
            " What the status repeats is older: by up to the provider's --poll (10 minutes). Check"
            f" the API server of InferenceCluster {cluster}, and the kubeconfig in the Secret that"
            f" ClusterProviderConfig {call.observed_provider_config()} names."
        )
    return Condition(kind, UNKNOWN, REASON_NOT_OBSERVED, message)


def moves(call: Call, keys: Collection[str], provider_config: str, kind: str, reason: str) -> bool:
    """Return whether one of the parts is of another cluster than is desired.

    An InferenceCluster that is built anew has another ClusterProviderConfig. An Object's status
    repeats the old cluster until the provider has applied it on the new one. `kind`, `reason`: of
    the condition that says so from one call to the next.
    """
    where = ("spec", "providerConfigRef", "name")
    if any(call.observed_value(key, *where) not in (None, provider_config) for key in keys):
        return True
    waits = call.composite_condition(kind).get("reason") == reason
    return waits and not all(map(call.is_applied, keys))


def _said_before(call: Call, kind: str, unseen: set[str]) -> str:
    """Return the condition's message if it names a part that is still unseen, "" otherwise."""
    before = call.composite_condition(kind)
    message = access.text(before, "message")
    begin, _, rest = message.partition(": ")
    named = rest.partition(": ")[0]
    same = before.get("reason") == REASON_NOT_OBSERVED and begin.startswith(_BEGIN)
    return message if same and named in unseen else ""
