"""Network access to the pool: no port of Mooncake or etcd has authentication.

Engines reach what a client needs: the master's RPC, its metadata server, and the stores. The admin
port sets shares and removes everything: it is for the tier's own pods and for monitoring. One
policy for all of the tier's pods: a rule names ports, and each port is of one component only.
"""

from function.backends import monitoring as monitors
from function.backends.mooncake import facts, master, store
from function.backends.mooncake.facts import Tier
from function.contract.backend import Part
from function.kube import manifests as k

_Ports = list[int | tuple[int, int]]


def policy(tier: Tier) -> list[Part]:
    """Return the policy for wired engines, the tier's own pods and monitoring."""
    spec = tier.settings
    ports = spec.ports
    pool: _Ports = [
        (ports.transfer_first, ports.transfer_last),
        (ports.segment_first, ports.segment_last),
    ]
    engines: _Ports = [ports.rpc, *pool]
    if spec.admin_access == "Engines":
        engines.append(ports.admin)
    if spec.metadata == "http":
        engines.append(ports.metadata)
    etcd: _Ports = []
    if spec.etcd is not None and spec.etcd.source == "Managed":
        etcd = [facts.ETCD_CLIENT, facts.ETCD_PEER]
    if spec.metadata == "etcd":
        engines += etcd[:1]
    own = k.ingress(sorted({*engines, ports.admin, *etcd}, key=_first), pods=tier.labels)
    own["from"][0].pop("namespaceSelector")
    rules = [own, k.ingress(sorted(engines, key=_first), pods=tier.wired_labels)]
    if tier.spec.monitoring is not None:
        labels = tier.spec.monitoring.namespace_labels
        rules.append(k.ingress([ports.admin, ports.health], namespaces=labels))
    meta = k.metadata(facts.name(tier, "pool"), tier.remote_namespace, tier.labels)
    return [Part("networkpolicy-pool", k.network_policy(meta, tier.labels, rules))]


def _first(port: int | tuple[int, int]) -> int:
    return port if isinstance(port, int) else port[0]


def monitoring(tier: Tier) -> list[Part]:
    """Return the PodMonitor, where the tier asks for it."""
    component = "app.kubernetes.io/component"
    values = [master.COMPONENT, store.COMPONENT]
    selector = {
        "matchLabels": tier.labels,
        "matchExpressions": [{"key": component, "operator": "In", "values": values}],
    }
    labels = ("app.kubernetes.io/instance", component)
    name = facts.name(tier, "pool")
    monitor = monitors.pod_monitor(tier, name, selector, ["admin", "health"], labels)
    return [Part("podmonitor-pool", monitor)] if monitor else []


def endpoints(tier: Tier) -> dict[str, str]:
    """Return the addresses for the tier's status."""
    addresses = {"master": facts.master_address(tier)}
    admin = facts.admin_address(tier)
    if admin is not None:
        addresses["admin"] = f"http://{admin}"
    if facts.metadata_server(tier) != facts.P2P:
        addresses["metadata"] = facts.metadata_server(tier)
    return addresses
