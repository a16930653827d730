"""How an agent sees all GPUs of its node without allocating one."""

from collections.abc import Callable
from dataclasses import dataclass, field

from function.api.base import present
from function.api.placement import GPUVisibility, LocalRef
from function.backends.lmcache.facts import Tier
from function.contract.backend import Manifest, Part
from function.contract.platforms import platforms_with
from function.kube import manifests as k

_DEFAULT = GPUVisibility(source="RuntimeClass", runtime_class=LocalRef(name="nvidia"))
# What the container runtime of the RuntimeClass reads.
_NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
# The kubelet refuses admin access outside namespaces that carry this label.
_ADMIN_LABEL = {"resource.kubernetes.io/admin-access": "true"}


@dataclass(frozen=True)
class Visibility:
    """Additions of one source to the agents' pod, container and namespace."""

    pod: Manifest = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    resources: Manifest = field(default_factory=dict)
    namespace_labels: dict[str, str] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()


def visibility(tier: Tier, container: str) -> Visibility:
    """Return the additions of `spec.gpuVisibility` for the container of that name."""
    return _SOURCES[setting(tier).source](tier, container)


def hints(tier: Tier) -> tuple[str, ...]:
    """Return the usual reasons why an agent cannot start, by the GPU source."""
    source = setting(tier).source
    reasons = [f"{_HINTS[source]} ({_suggest_sources(source)})"]
    if not tier.spec.nodes.selector:
        reasons.append("spec.nodes.selector is empty, and some nodes have no GPU")
    return tuple(reasons)


def setting(tier: Tier) -> GPUVisibility:
    """Return `spec.gpuVisibility` or its default."""
    return tier.spec.gpu_visibility or _DEFAULT


def _runtime_class(tier: Tier, container: str) -> Visibility:
    name = present(setting(tier).runtime_class).name
    return Visibility(pod={"runtimeClassName": name}, env=_NVIDIA)


def _cdi(tier: Tier, container: str) -> Visibility:
    cdi = setting(tier).cdi_or_default
    return Visibility(annotations={f"{cdi.annotation_prefix}/container.{container}": cdi.device})


def _dra(tier: Tier, container: str) -> Visibility:
    device_class = setting(tier).dra_or_default.device_class_name
    name = f"{tier.remote_name}-gpus"
    template = k.claim_template(
        k.metadata(name, tier.remote_namespace, tier.labels),
        "gpus",
        device_class,
        allocationMode="All",
        adminAccess=True,
    )
    return Visibility(
        pod={"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": name}]},
        resources={"claims": [{"name": "gpus"}]},
        namespace_labels=_ADMIN_LABEL,
        parts=(Part("resourceclaimtemplate-gpus", template),),
    )


def _suggest_sources(source: str) -> str:
    """Return a sentence with the values of gpuVisibility.source by platform."""
    others = (name for name in _HINTS if name != source)
    fits = ((name, "; ".join(platforms_with(name))) for name in others)
    rows = ", ".join(f"{name} on {where}" for name, where in fits if where)
    return f"spec.gpuVisibility.source is {source}; it should be {rows}: docs/platforms.md"


_HINTS = {
    "RuntimeClass": "the cluster has no RuntimeClass of the name in"
    " spec.gpuVisibility.runtimeClass",
    "DefaultRuntime": "the nodes' default runtime exposes no GPUs to a container without a claim",
    "CDI": "the nodes' runtime does not inject the CDI device into pods of spec.namespace",
    "DRAAdminAccess": "the cluster's DRA driver grants no admin access (Kubernetes 1.34)",
    "None": "nothing exposes GPUs to the agents",
}

_SOURCES: dict[str, Callable[[Tier, str], Visibility]] = {
    "RuntimeClass": _runtime_class,
    "DefaultRuntime": lambda *_: Visibility(env=_NVIDIA),
    "CDI": _cdi,
    "DRAAdminAccess": _dra,
    "None": lambda *_: Visibility(),
}
