"""Network access to the agents: neither of their ports has authentication.

5555 takes tensors and, for engine-driven transfers, pickles; 8080 shows the environment with the
Redis password in it and empties the cache on request.
"""

from collections.abc import Mapping

from function.backends import monitoring as monitors
from function.backends.lmcache.facts import MQ_PORT, Tier
from function.contract.backend import Part
from function.kube import manifests as k


def agent_labels(tier: Tier) -> dict[str, str]:
    """Return the agents' selector."""
    return k.component(tier.labels, "agent")


def service(tier: Tier) -> Part:
    """Return the agents' Service; node-local, so that engines reach their own node's."""
    meta = k.metadata(tier.remote_name, tier.remote_namespace, tier.labels)
    return Part(
        "service-agent", k.service(meta, agent_labels(tier), {"mq": MQ_PORT}, node_local=True)
    )


def policy(tier: Tier, measured: Mapping[str, int]) -> Part:
    """Return the policy that admits wired pods to 5555, and monitoring to the metrics.

    `measured`: metrics ports by name, for the monitoring namespaces only.
    """
    rules = [k.ingress([MQ_PORT], pods=tier.wired_labels)]
    if tier.spec.monitoring is not None:
        namespaces = tier.spec.monitoring.namespace_labels
        rules.append(k.ingress(measured.values(), namespaces=namespaces))
    meta = k.metadata(f"{tier.remote_name}-agent", tier.remote_namespace, tier.labels)
    return Part("networkpolicy-agent", k.network_policy(meta, agent_labels(tier), rules))


def monitoring(tier: Tier, measured: Mapping[str, int]) -> list[Part]:
    """Return the PodMonitor, where the tier asks for it.

    The server ignores `--prometheus-port`: its metrics are on the HTTP port.
    """
    selector = {"matchLabels": agent_labels(tier)}
    name = f"{tier.remote_name}-agent"
    manifest = monitors.pod_monitor(tier, name, selector, [*measured])
    return [Part("podmonitor-agent", manifest)] if manifest else []
