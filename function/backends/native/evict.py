"""What runs on the cluster: for each level that is files an evictor, beside the volume.

A volume is of one namespace, that of the engines' pods, so what works on it stands there too. A
tier without such a level runs nothing.
"""

from function.api.native import NativeFileSystem, NativeLevel
from function.backends import agents, evictor
from function.backends.evictor import SHARED_PERIOD, Directory
from function.backends.native import facts
from function.backends.native.facts import Tier
from function.contract.backend import CONTROL_PLANE, Manifest, Part
from function.contract.image import Image
from function.kube import manifests as k

STOCK_REPOSITORY = "python"
STOCK_TAG = "3.13-slim"


def parts(tier: Tier) -> list[Part]:
    """Claims, the program in each namespace, an evictor for each level, and its network."""
    levels = list(facts.file_systems(tier))
    namespaces = sorted({files.claim.namespace for _, files in levels})
    return [
        *(_claim(tier, level, files) for level, files in levels if not files.claim.name),
        *(_program(tier, namespace) for namespace in namespaces),
        *(_deployment(tier, level, files) for level, files in levels),
        *(_policy(tier, namespace) for namespace in namespaces),
        *(part for namespace in namespaces for part in _pod_monitor(tier, namespace)),
    ]


def _claim(tier: Tier, level: NativeLevel, files: NativeFileSystem) -> Part:
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": k.metadata(facts.claim(tier, level), files.claim.namespace, tier.labels),
        "spec": k.claim(files.claim.storage_class_name, files.size_gib, "ReadWriteMany"),
    }
    key = f"persistentvolumeclaim-{level.name}"
    return Part(key, manifest, keep=True, beside=files.claim.namespace)


def _program(tier: Tier, namespace: str) -> Part:
    manifest = evictor.program_in(tier, namespace)
    return Part(f"configmap-evictor-{namespace}", manifest, beside=namespace)


def _labels(tier: Tier) -> dict[str, str]:
    return k.component(tier.labels, evictor.NAME)


def _deployment(tier: Tier, level: NativeLevel, files: NativeFileSystem) -> Part:
    """One pod: two would be no harm, since they elect one of them."""
    image = Image.of(tier.spec.image, STOCK_REPOSITORY, STOCK_TAG)
    labels = {**_labels(tier), "modelplane.ai/kv-offload-level": level.name}
    directory = Directory(
        facts.directory(tier, level),
        files.size_gib,
        SHARED_PERIOD,
        files=files.max_files or 0,
        empties=True,
    )
    container = evictor.container(
        image,
        "python3",
        tier.settings.evictor,
        [directory],
        [{"name": "blocks", "mountPath": facts.mount(level)}],
        readinessProbe=k.http_probe("/readyz", evictor.PORT_NAME, period=10, failures=3),
    )
    claim = {"claimName": facts.claim(tier, level)}
    pod = {
        **agents.pod(tier, image, tier.settings.run_as_user),
        "containers": [container],
        "volumes": [{"name": "blocks", "persistentVolumeClaim": claim}, evictor.volume(tier)],
    }
    name = f"{tier.remote_name}-{level.name}-{evictor.NAME}"
    manifest: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": k.metadata(name, files.claim.namespace, labels),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }
    key = f"deployment-evictor-{level.name}"
    beside = files.claim.namespace
    return Part(key, manifest, CONTROL_PLANE, k.DEPLOYMENT_READY, watch=True, beside=beside)


def _policy(tier: Tier, namespace: str) -> Part:
    """Metrics for the monitoring namespaces, nothing else."""
    rules = []
    if tier.spec.monitoring is not None:
        namespaces = tier.spec.monitoring.namespace_labels
        rules.append(k.ingress([evictor.PORT], namespaces=namespaces))
    meta = k.metadata(f"{tier.remote_name}-{evictor.NAME}", namespace, _labels(tier))
    manifest = k.network_policy(meta, _labels(tier), rules)
    return Part(f"networkpolicy-evictor-{namespace}", manifest, beside=namespace)


def _pod_monitor(tier: Tier, namespace: str) -> list[Part]:
    selector = {"matchLabels": _labels(tier)}
    name = f"{tier.remote_name}-{evictor.NAME}"
    manifest = agents.pod_monitor(tier, name, selector, [evictor.PORT_NAME])
    if manifest is None:
        return []
    manifest["metadata"]["namespace"] = namespace
    return [Part(f"podmonitor-evictor-{namespace}", manifest, beside=namespace)]
