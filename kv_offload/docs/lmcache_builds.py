"""Whether LMCache's native code was built for an engine's torch.

The rows are in function/facts/lmcache_wheels.yaml. What counts is LMCache in the *engine's* image,
and the agent's in its own.
"""

from dataclasses import dataclass

from function.contract.stock_images.facts import Contents
from function.facts import Table


@dataclass(frozen=True)
class Wheel:
    """A release of LMCache, and what its wheels are built for. `cuda`: the major version."""

    lmcache: str
    torch: str
    cuda: str
    source: str


WHEELS = Table(Wheel, "lmcache_wheels", "wheels")


def native(contents: Contents) -> bool | None:
    """Return whether LMCache's native code is built for this image's torch and CUDA.

    None where nobody can tell, False without LMCache.
    """
    lmcache, torch, cuda = (contents.package(name) for name in ("lmcache", "torch", "cuda"))
    if lmcache.versions == ():
        return False
    if lmcache.note or not (lmcache.versions and torch.versions and cuda.versions):
        return None
    held = (torch.versions[0], cuda.versions[0].partition(".")[0])
    builds = {wheel.lmcache: (wheel.torch, wheel.cuda) for wheel in WHEELS}
    found = {builds[v] == held if v in builds else None for v in lmcache.versions}
    return found.pop() if len(found) == 1 else None
