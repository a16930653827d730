"""Guard a cluster's ClusterProviderConfig while a child tier leaves that cluster.

Core deletes what it composes in the foreground. So the garbage collector takes an Object's
ProviderConfigUsage, its dependent, before the Object; and provider-kubernetes v1.2.1 deletes
nothing on the cluster as long as the Object has that other finalizer. A ClusterProviderConfig that
is being deleted goes in between (12 of 12 tries), and the Objects can never be deleted any more:
agents run on, on a cluster that the control plane has forgotten.

So an Object that only observes stands there before the child is told to go, and goes after it. Its
own ProviderConfigUsage keeps the ProviderConfig, and it needs none to be deleted.

Rejected: a Usage of the ClusterProviderConfig. Core stops at a delete that is denied while it
collects what another composite no longer desires, and the garbage collector tries again ever later.
"""

from collections.abc import Iterable

from function.edge.answer import Composed
from function.edge.request import Call
from function.kube import objects

PREFIX = "hold-"


def compose(clusters: dict[str, str], namespace: str) -> dict[str, Composed]:
    """Compose the guards of these clusters' ProviderConfigs, by key.

    `namespace`: what is observed there, which need not exist.
    """
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    return {
        PREFIX + cluster: Composed(objects.wrap(manifest, config, observe=True), True)
        for cluster, config in clusters.items()
    }


def observed(call: Call) -> dict[str, str]:
    """Return {cluster: the ProviderConfig that is guarded there now}."""
    keys = [key for key in call.observed_keys() if key.startswith(PREFIX)]
    return {key.removeprefix(PREFIX): _provider_config(call, key) for key in keys}


def in_force(call: Call, clusters: Iterable[str]) -> set[str]:
    """Return those of the clusters whose guard the provider has observed, and which stays.

    It marks the ProviderConfig as used before anything else, and can be right or wrong after that.
    """
    return {
        c
        for c in clusters
        if call.observed_condition(PREFIX + c, "Synced") != "Unknown"
        and not call.is_leaving(PREFIX + c)
    }


def _provider_config(call: Call, key: str) -> str:
    return str(call.observed_value(key, "spec", "providerConfigRef", "name") or "")
