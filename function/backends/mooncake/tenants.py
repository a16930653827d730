"""Tenants: a bounded share of the pool's memory for each namespace.

The master reads the shares once, when it starts, and takes others from its admin server while it
runs. So they are in a ConfigMap of a fixed name, and a sidecar of each master applies them
(quotas.py): an edit restarts no master, which would lose all blocks.
"""

import json

import programs
from function.backends.mooncake import facts, pods
from function.backends.mooncake.facts import Tier
from function.contract.backend import Manifest, Part
from function.kube import manifests as k

COMPONENT = "tenants"
FILE = "tenants.json"
_GIB = 2**30
_GIVEN, _KEPT = "/etc/kv-offload/tenants", "/var/lib/kv-offload/tenants"


def config_map(tier: Tier) -> list[Part]:
    """Return the shares in the master's format: JSON is YAML."""
    tenants = tier.settings.tenants
    if tenants is None:
        return []
    shares = {quota.namespace: quota.size_gib for quota in tenants.quotas}
    shares[facts.DEFAULT_TENANT] = tenants.others_size_gib
    rows = [{"name": name, "quota": gib * _GIB} for name, gib in sorted(shares.items())]
    text = json.dumps({"version": 1, "tenants": rows}, indent=1) + "\n"
    return [Part("configmap-tenants", k.config_map(pods.meta(tier, COMPONENT), {FILE: text}))]


def flags(tier: Tier) -> dict[str, str]:
    """Return the flags that make a master count by tenant, none without tenants."""
    if tier.settings.tenants is None:
        return {}
    return {
        "enable_multi_tenants": "true",
        "tenant_quota_connector_type": "file",
        "tenant_quota_connector_uri": f"{_KEPT}/{FILE}",
    }


def mounts(tier: Tier) -> list[Manifest]:
    """Return the mount from which the master reads its shares."""
    if tier.settings.tenants is None:
        return []
    return [{"name": "kept-tenants", "mountPath": _KEPT}]


def with_quotas(tier: Tier, pod: Manifest) -> Manifest:
    """Return the master's pod with the sidecar, unchanged without tenants."""
    if tier.settings.tenants is None:
        return pod
    given = {"name": "tenants", "mountPath": _GIVEN, "readOnly": True}
    kept = {"name": "kept-tenants", "mountPath": _KEPT}
    copies = _container(tier, "copy-tenants", ["copy", f"{_GIVEN}/{FILE}", f"{_KEPT}/{FILE}"])
    admin = f"http://127.0.0.1:{tier.settings.ports.admin}"
    keeps = _container(tier, "keep-tenants", ["keep", f"{_GIVEN}/{FILE}", admin])
    volumes: list[Manifest] = [
        {"name": "tenants", "configMap": {"name": facts.name(tier, COMPONENT)}},
        {"name": "kept-tenants", "emptyDir": {"sizeLimit": "16Mi"}},
    ]
    return {
        **pod,
        "initContainers": [copies | {"volumeMounts": [given, kept]}],
        "containers": [*pod["containers"], keeps | {"volumeMounts": [given]}],
        "volumes": [*pod["volumes"], *volumes],
    }


def _container(tier: Tier, name: str, words: list[str]) -> Manifest:
    return pods.container(
        tier,
        name,
        command=["python3", "-c", k.literal(programs.text("mooncake/quotas.py"))],
        args=words,
        env=k.env({"PYTHONDONTWRITEBYTECODE": "1"}),
        resources=pods.HELPER_RESOURCES,
    )
