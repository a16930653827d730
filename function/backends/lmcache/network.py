"""Who may talk to the agents: neither of their ports asks for a password.

5555 takes tensors and, for engine-driven transfers, pickles; 8080 shows the environment with the
Redis password in it and empties the cache on request.
"""

from collections.abc import Mapping

from function.backends import agents
from function.backends.lmcache.facts import MQ_PORT, Tier
from function.contract.backend import Part
from function.kube import manifests as k


def agent_labels(tier: Tier) -> dict[str, str]:
    """The agents' own selector."""
    return k.component(tier.labels, "agent")


def service(tier: Tier) -> Part:
    """The one name of all agents; node-local, so that an engine reaches its own node's."""
    meta = k.metadata(tier.remote_name, tier.remote_namespace, tier.labels)
    return Part(
        "service-agent",
        k.service(meta, agent_labels(tier), {"mq": MQ_PORT}, node_local=True),
    )


def policy(tier: Tier, measured: Mapping[str, int]) -> Part:
    """5555 for wired pods of any namespace, the measured ports (name: number) for the monitoring
    namespaces, nothing else."""
    rules = [k.ingress([MQ_PORT], pods=tier.wired_labels)]
    if tier.spec.monitoring is not None:
        namespaces = tier.spec.monitoring.namespace_labels
        rules.append(k.ingress(measured.values(), namespaces=namespaces))
    meta = k.metadata(f"{tier.remote_name}-agent", tier.remote_namespace, tier.labels)
    return Part("networkpolicy-agent", k.network_policy(meta, agent_labels(tier), rules))


def pod_monitor(tier: Tier, measured: Mapping[str, int]) -> list[Part]:
    """A PodMonitor where the tier asks for one (`--prometheus-port` is ignored by the server)."""
    selector = {"matchLabels": agent_labels(tier)}
    manifest = agents.pod_monitor(tier, f"{tier.remote_name}-agent", selector, [*measured])
    return [Part("podmonitor-agent", manifest)] if manifest else []
