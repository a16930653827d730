"""Names, ports, images and versions of LMCache.

The versions were read from the argument parsers of the wheels 0.5.4, 0.5.5 and 0.5.6.
"""

from packaging.version import Version

from function.api.base import present
from function.api.lmcache import LMCacheL1, LMCacheSpec
from function.api.lmcache_inprocess import LMCacheInProcess
from function.contract.backend import Tier as AnyTier
from function.contract.image import Image

NODE_SERVER = "NodeServer"
IN_PROCESS = "InProcess"
ISOLATED = "Isolated"
SHARED_MEMORY = "SharedMemory"

MQ_PORT = 5555
HTTP_PORT = 8080

# Seconds between an engine's pings, and its timeout for each.
HEARTBEAT_SECONDS = 2

STOCK_REPOSITORY = "lmcache/standalone"
STOCK_TAG = "v0.5.6"
PYTHON = "/opt/venv/bin/python3"  # of upstream's images

OLDEST = Version("0.5.4")
# The first version with a feature.
SINCE = {
    "ipc Isolated": Version("0.5.5"),
    "registration.sessionSeconds": Version("0.5.6"),
    "l1.hugepages": Version("0.5.6"),
    "l1.evictionPolicy ARC": Version("0.5.6"),
}


Tier = AnyTier[LMCacheSpec]


class LMCacheImage(Image):
    """The agents' image."""

    @property
    def stock(self) -> bool:
        """Return whether it is upstream's server image, or a mirror of that name."""
        return self.repository.rpartition("/")[2] == STOCK_REPOSITORY.rpartition("/")[2]

    def has(self, feature: str) -> bool:
        """Return whether its LMCache has a feature of SINCE."""
        return self.version is not None and self.version >= SINCE[feature]


def image(tier: Tier) -> LMCacheImage:
    """Return the image of a tier's agents; default: the stock image."""
    return LMCacheImage.of(tier.spec.image, STOCK_REPOSITORY, STOCK_TAG)


def host(tier: Tier) -> str:
    """Return the DNS name by which an engine reaches its own node's agent."""
    return f"{tier.remote_name}.{tier.remote_namespace}.svc"


def first_level(tier: Tier) -> LMCacheL1:
    """Return `spec.lmcache.l1`, which is set in mode NodeServer."""
    l1 = tier.settings.l1
    assert l1 is not None
    return l1


def in_process(tier: Tier) -> LMCacheInProcess:
    """Return `spec.lmcache.inProcess`, which is set in mode InProcess."""
    return present(tier.settings.in_process)


def level_types(tier: Tier) -> frozenset[str]:
    """Return what lies below the memory, for advisories."""
    inside = tier.settings.in_process
    if inside is not None and inside.local_disk is not None:
        return frozenset({"LocalDisk"})
    return frozenset(level.type for level in tier.settings.l2)


def startup_seconds(tier: Tier) -> int:
    """Return the longest start of an agent, in seconds.

    It is the tier's limit, or the time to pin memory if that is longer. The kubelet and the engines
    (`lmcache.mp.mq_timeout`) wait equally long. LMCache's operator allows two seconds per GiB; with
    lazy pinning only the initial size counts.
    """
    l1 = first_level(tier)
    pinned = l1.size_gib if l1.hugepages else initial_size(tier)
    return max(int(tier.spec.startup_timeout_seconds), 60 + 2 * pinned)


def initial_size(tier: Tier) -> int:
    """Return the GiB that are pinned at start without hugepages (default 20)."""
    l1 = first_level(tier)
    return l1.initial_size_gib or min(20, l1.size_gib)
