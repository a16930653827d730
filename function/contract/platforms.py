"""Kubernetes platforms: how agents reach GPU nodes, and how they see the GPUs there.

An agent claims no GPU, since the engines have claimed them all. It sees them by other means, which
differ by platform. The rows are in function/facts/platforms.yaml.
"""

from dataclasses import dataclass
from functools import cache

from function.api.placement import Nodes, Toleration
from function.facts import Table


@dataclass(frozen=True)
class Platform:
    """One platform, or one way to install the GPUs of any.

    `labels`: of its GPU nodes, `key=value`, or `key=` where the value is the type of the GPU or of
    the machine. `taints`: of these nodes, `key=value:Effect`; `by_itself`: the platform sets them
    unasked. `tolerated`: the taint that agents tolerate unless the tier says otherwise, `key` or
    `key=value`. `runtime_class`: whether a RuntimeClass `nvidia` exists. `sources`: the values of
    spec.gpuVisibility.source that fit, the preferred one first. `needs`: what must be set besides.
    """

    name: str
    sources: tuple[str, ...]
    needs: str
    source: str
    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    by_itself: bool = False
    tolerated: str = ""
    runtime_class: bool = False


PLATFORMS = Table(Platform, "platforms", "platforms")


def tolerations(nodes: Nodes) -> tuple[Toleration, ...]:
    """Return what agents on engines' nodes tolerate: the tier's own list, or the usual taints."""
    return usual_tolerations() if nodes.tolerations is None else tuple(nodes.tolerations)


@cache
def usual_tolerations() -> tuple[Toleration, ...]:
    """Return what agents on engines' nodes tolerate where the tier says nothing."""
    return tuple(_toleration(t) for t in dict.fromkeys(p.tolerated for p in PLATFORMS) if t)


def _toleration(taint: str) -> Toleration:
    key, equals, value = taint.partition("=")
    if not equals:
        return Toleration(key=key, operator="Exists")
    return Toleration(key=key, operator="Equal", value=value)


@cache
def platforms_with(source: str) -> tuple[str, ...]:
    """Return the platforms that prefer a value of spec.gpuVisibility.source."""
    return tuple(platform.name for platform in PLATFORMS if platform.sources[0] == source)


def label_keys() -> tuple[str, ...]:
    """Return the keys of the labels that mark GPU nodes, the best one of each platform."""
    first = (platform.labels[0] for platform in PLATFORMS if platform.labels)
    return tuple(dict.fromkeys(label.partition("=")[0] for label in first))
