"""Evictors of volumes that engines share, in pods of their own.

A claim belongs to one namespace, that of the engines' pods, so its evictor runs there too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from function.api.evictor import Evictor
from function.backends import agents, evictor, monitoring
from function.backends.evictor import BoundedDirectory
from function.contract.backend import CONTROL_PLANE, AnyTier, Manifest, Part
from function.contract.engine import Engine
from function.contract.image import Image
from function.kube import manifests as k

STOCK_REPOSITORY = "python"
STOCK_TAG = "3.13-slim"


@dataclass(frozen=True)
class Volume:
    """A shared volume and its evictor.

    `name`: unique in the tier. `claim`: in `namespace`. `mount`: the engines' mount path, above
    `directory`. `user`: the user id that may remove the engines' files; 0: root without any
    capability.
    """

    name: str
    namespace: str
    claim: str
    mount: str
    directory: BoundedDirectory
    settings: Evictor
    user: int


def own_mount(engine: Engine, name: str, root: str, directory: str) -> Manifest:
    """Return an engine's mount of one directory of a volume, which belongs below `root`.

    So the pod reaches nothing else of a volume that tiers share. The kubelet makes a directory that
    is missing, as root and with the mode of the volume's top. Another user could not write there: a
    pod that does not say it runs as root gets the whole volume, and makes its directory itself.
    """
    if engine.root:
        return {"name": name, "mountPath": f"{root}/{directory}", "subPath": directory}
    return {"name": name, "mountPath": root}


def pod_security(volumes: Sequence[Volume]) -> str:
    """Return the strictest Pod Security level that admits the evictors."""
    return "restricted" if all(volume.user for volume in volumes) else "baseline"


def parts(tier: AnyTier, volumes: Sequence[Volume]) -> list[Part]:
    """Return the evictors, and in each namespace their program, policy and PodMonitor."""
    namespaces = sorted({volume.namespace for volume in volumes})
    return [
        *(
            Part(
                f"configmap-evictor-{each}", evictor.config_map(tier, each), namespace_override=each
            )
            for each in namespaces
        ),
        *(_deployment(tier, volume) for volume in volumes),
        *(_policy(tier, namespace) for namespace in namespaces),
        *(part for namespace in namespaces for part in _pod_monitor(tier, namespace)),
    ]


def _labels(tier: AnyTier) -> dict[str, str]:
    return k.component(tier.labels, evictor.NAME)


def _deployment(tier: AnyTier, volume: Volume) -> Part:
    """Return the evictor of a volume. Further ones do no harm: they elect one."""
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
    meta = k.metadata(name, volume.namespace, labels)
    strategy = {"type": "Recreate"}
    manifest = k.workload("Deployment", meta, labels, pod, replicas=1, strategy=strategy)
    return Part(
        f"deployment-evictor-{volume.name}",
        manifest,
        CONTROL_PLANE,
        k.DEPLOYMENT_READY,
        watch=True,
        namespace_override=volume.namespace,
    )


def _policy(tier: AnyTier, namespace: str) -> Part:
    """Return the policy that admits the monitoring namespaces only."""
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
    manifest = monitoring.pod_monitor(tier, name, selector, [evictor.PORT_NAME])
    if manifest is None:
        return []
    manifest["metadata"]["namespace"] = namespace
    return [Part(f"podmonitor-evictor-{namespace}", manifest, namespace_override=namespace)]
