"""The optional preflight of a NIXL tier: one pod per node checks once, then idles.

Its readiness is that of the tier's agents. The program comes from a ConfigMap and runs in any image
with NIXL; by default in vLLM's own, which nodes of engines already have.
"""

import json

import programs
from function.api.nixl import NIXLPreflight
from function.api.trust import TrustBundle
from function.backends import agents, rdma, trust
from function.backends.nixl.facts import Tier
from function.backends.rdma import Device
from function.contract.backend import Manifest, Part
from function.contract.image import Image
from function.kube import manifests as k

STOCK_REPOSITORY, STOCK_TAG = "vllm/vllm-openai", "v0.33.0"
NAME, PROGRAM, PORT = "preflight", "preflight.py", 8099
UID = 65532
_FOLDER, _TRUST = "/etc/kv-offload", "trust"


def parts(tier: Tier) -> list[Part]:
    """Return the preflight's objects, none unless the tier asks for it."""
    settings = tier.settings.preflight
    if settings is None:
        return []
    device = rdma.device(tier) if settings.claim_device else Device()
    labels = k.component(tier.labels, NAME)
    name = f"{tier.remote_name}-{NAME}"
    daemonset = agents.daemonset(
        tier,
        f"daemonset-{NAME}",
        k.metadata(name, tier.remote_namespace, labels),
        labels,
        _pod(tier, settings, device),
        tier.spec.rdma.pod_annotations,
    )
    meta = k.metadata(name, tier.remote_namespace, tier.labels)
    program = k.config_map(meta, {PROGRAM: programs.text(f"nixl/{PROGRAM}")})
    deny_all = k.network_policy(dict(meta), labels, [])
    return [
        Part("namespace", k.namespace(tier.remote_namespace), keep=True),
        Part(f"configmap-{NAME}", program),
        *device.parts,
        daemonset,
        Part(f"networkpolicy-{NAME}", deny_all),
    ]


def pod_security(tier: Tier) -> str:
    """Return the strictest Pod Security level: a device needs the IPC_LOCK capability."""
    settings = tier.settings.preflight
    return "privileged" if settings is not None and settings.claim_device else "restricted"


def _pod(tier: Tier, settings: NIXLPreflight, device: Device) -> Manifest:
    image = Image.of(tier.spec.image, STOCK_REPOSITORY, STOCK_TAG)
    pod: Manifest = {
        **agents.pod(tier, image, 0 if settings.claim_device else UID, colocated_with_engines=True),
        "terminationGracePeriodSeconds": 5,
        "containers": [_container(tier, settings, device, image)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "program", "configMap": {"name": f"{tier.remote_name}-{NAME}"}},
        ],
    }
    if (bundle := _trusted(settings)) is not None:
        pod["volumes"].append(trust.volume(bundle, _TRUST))
    if device.pod_claims:
        pod["resourceClaims"] = [dict(claim) for claim in device.pod_claims]
    return pod


def _container(tier: Tier, settings: NIXLPreflight, device: Device, image: Image) -> Manifest:
    amounts = {"memory": "1Gi", **dict.fromkeys(device.extended, "1")}
    resources: Manifest = {"requests": {"cpu": "10m", **amounts}, "limits": amounts}
    resources["requests"]["memory"] = "64Mi"
    if device.container_claims:
        resources["claims"] = [dict(claim) for claim in device.container_claims]
    container = agents.container(
        image,
        NAME,
        command=["python3", f"{_FOLDER}/{PROGRAM}"],
        args=[k.literal(json.dumps(config(tier, settings), separators=(",", ":"), sort_keys=True))],
        env=k.env(_env(tier, settings)),
        ports=agents.ports(**{NAME: PORT}),
        resources=resources,
        readinessProbe=k.tcp_probe(NAME, period=30, failures=2),
        volumeMounts=[
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "program", "mountPath": _FOLDER, "readOnly": True},
        ],
    )
    if _trusted(settings) is not None:
        container["volumeMounts"].append(
            {"name": _TRUST, "mountPath": f"/{_TRUST}", "readOnly": True}
        )
    if device.capabilities:
        container["securityContext"]["capabilities"]["add"] = list(device.capabilities)
    return container


def config(tier: Tier, settings: NIXLPreflight) -> Manifest:
    """Return the program's configuration: what it checks."""
    spec, network = tier.settings, tier.spec.rdma
    plugins = dict.fromkeys((spec.backend, *settings.plugins))
    checks: Manifest = {
        "backend": spec.backend,
        "plugins": list(plugins),
        "rdma": network.source != "None",
        "device": settings.claim_device,
        "devices": list(network.devices),
        "port": PORT,
    }
    if settings.bucket is not None:
        checks["store"] = {"endpoint": settings.bucket.endpoint, "bucket": settings.bucket.name}
        if _trusted(settings) is not None:
            checks["store"]["ca"] = trust.path(f"/{_TRUST}")
    return checks


def _trusted(settings: NIXLPreflight) -> TrustBundle | None:
    return settings.bucket.ca_config_map if settings.bucket is not None else None


def _env(tier: Tier, settings: NIXLPreflight) -> dict[str, str]:
    values = {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    # GPU images request all GPUs, if the runtime reads that variable.
    values["NVIDIA_VISIBLE_DEVICES"] = "void"
    if tier.settings.backend != "UCX":
        return values
    if settings.claim_device and tier.spec.rdma.devices:
        values["UCX_NET_DEVICES"] = ",".join(f"{name}:1" for name in tier.spec.rdma.devices)
    elif not settings.claim_device:
        # Without a device UCX would copy inside the process, which shows nothing.
        values["UCX_TLS"] = "tcp"
    return values
