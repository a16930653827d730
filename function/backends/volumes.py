"""What keeps a volume that engines share under its size: an evictor of its own, beside it.

A volume is of one namespace, that of the engines' pods, so what works on it stands there too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from function.api.evictor import Evictor
from function.backends import agents, evictor
from function.backends.evictor import Directory
from function.contract.backend import CONTROL_PLANE, AnyTier, Manifest, Part
from function.contract.image import Image
from function.kube import manifests as k

STOCK_REPOSITORY = "python"
STOCK_TAG = "3.13-slim"


@dataclass(frozen=True)
class Volume:
    """`name`: unique in the tier. `claim`: in `namespace`. `mount`: where engines have it, above
    `directory`. `user`: who may remove what engines write; 0: root without any capability.
    """

    name: str
    namespace: str
    claim: str
    mount: str
    directory: Directory
    settings: Evictor
    user: int


def pod_security(volumes: Sequence[Volume]) -> str:
    """The strictest Pod Security level that admits their evictors."""
    return "restricted" if all(volume.user for volume in volumes) else "baseline"


def parts(tier: AnyTier, volumes: Sequence[Volume]) -> list[Part]:
    """The program in each namespace, an evictor for each volume, and its network."""
    namespaces = sorted({volume.namespace for volume in volumes})
    return [
        *(_program(tier, namespace) for namespace in namespaces),
        *(_deployment(tier, volume) for volume in volumes),
        *(_policy(tier, namespace) for namespace in namespaces),
        *(part for namespace in namespaces for part in _pod_monitor(tier, namespace)),
    ]


def _program(tier: AnyTier, namespace: str) -> Part:
    manifest = evictor.program_in(tier, namespace)
    return Part(f"configmap-evictor-{namespace}", manifest, namespace_override=namespace)


def _labels(tier: AnyTier) -> dict[str, str]:
    return k.component(tier.labels, evictor.NAME)


def _deployment(tier: AnyTier, volume: Volume) -> Part:
    """One pod: two would be no harm, since they elect one of them."""
    image = Image.of(tier.spec.image, STOCK_REPOSITORY, STOCK_TAG)
    labels = {**_labels(tier), "modelplane.ai/kv-offload-level": volume.name}
    container = evictor.container(
        image,
        "python3",
        volume.settings,
        [volume.directory],
        [{"name": "blocks", "mountPath": volume.mount}],
        readinessProbe=k.http_probe("/readyz", evictor.PORT_NAME, period=10, failures=3),
    )
    claim = {"claimName": volume.claim}
    pod = {
        **agents.pod(tier, image, volume.user),
        "containers": [container],
        "volumes": [{"name": "blocks", "persistentVolumeClaim": claim}, evictor.volume(tier)],
    }
    name = f"{tier.remote_name}-{volume.name}-{evictor.NAME}"
    manifest: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": k.metadata(name, volume.namespace, labels),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }
    key = f"deployment-evictor-{volume.name}"
    namespace_override = volume.namespace
    return Part(
        key,
        manifest,
        CONTROL_PLANE,
        k.DEPLOYMENT_READY,
        watch=True,
        namespace_override=namespace_override,
    )


def _policy(tier: AnyTier, namespace: str) -> Part:
    """Metrics for the monitoring namespaces, nothing else."""
    rules = []
    if tier.spec.monitoring is not None:
        namespaces = tier.spec.monitoring.namespace_labels
        rules.append(k.ingress([evictor.PORT], namespaces=namespaces))
    meta = k.metadata(f"{tier.remote_name}-{evictor.NAME}", namespace, _labels(tier))
    manifest = k.network_policy(meta, _labels(tier), rules)
    return Part(f"networkpolicy-evictor-{namespace}", manifest, namespace_override=namespace)


def _pod_monitor(tier: AnyTier, namespace: str) -> list[Part]:
    selector = {"matchLabels": _labels(tier)}
    name = f"{tier.remote_name}-{evictor.NAME}"
    manifest = agents.pod_monitor(tier, name, selector, [evictor.PORT_NAME])
    if manifest is None:
        return []
    manifest["metadata"]["namespace"] = namespace
    return [Part(f"podmonitor-evictor-{namespace}", manifest, namespace_override=namespace)]
