"""Names, ports, images and versions of LMCache that more than one module needs.

The versions were read off the argument parsers of the wheels 0.5.4, 0.5.5 and 0.5.6.
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

# Between an engine's pings; also how long it waits for the answer to one.
HEARTBEAT_SECONDS = 2

STOCK_REPOSITORY = "lmcache/standalone"
STOCK_TAG = "v0.5.6"
PYTHON = "/opt/venv/bin/python3"  # of upstream's images

OLDEST = Version("0.5.4")
# What a server of that version knows first.
SINCE = {
    "ipc Isolated": Version("0.5.5"),
    "registration.sessionSeconds": Version("0.5.6"),
    "l1.hugepages": Version("0.5.6"),
    "l1.evictionPolicy ARC": Version("0.5.6"),
}


Tier = AnyTier[LMCacheSpec]


class AgentImage(Image):
    """The agents' image."""

    @property
    def stock(self) -> bool:
        """Whether it is upstream's own server image (or a mirror that kept its name)."""
        return self.repository.rpartition("/")[2] == STOCK_REPOSITORY.rpartition("/")[2]

    def has(self, feature: str) -> bool:
        """Whether its LMCache knows a feature of SINCE."""
        return self.version is not None and self.version >= SINCE[feature]


def image(tier: Tier) -> AgentImage:
    """The image of a tier's agents, the stock one where the spec says nothing."""
    return AgentImage.of(tier.spec.image, STOCK_REPOSITORY, STOCK_TAG)


def host(tier: Tier) -> str:
    """The DNS name behind which an engine finds its own node's agent."""
    return f"{tier.remote_name}.{tier.remote_namespace}.svc"


def first_level(tier: Tier) -> LMCacheL1:
    """`spec.lmcache.l1`, which mode NodeServer has."""
    return present(tier.settings.l1)


def in_process(tier: Tier) -> LMCacheInProcess:
    """`spec.lmcache.inProcess`, which mode InProcess has."""
    return present(tier.settings.in_process)


def startup_seconds(tier: Tier) -> int:
    """How long an agent may take to start: the tier's own limit, or what pinning memory may take.

    The kubelet and the engines (`lmcache.mp.mq_timeout`) wait equally long. Two seconds a GiB is
    the budget that LMCache's operator has; with lazy pinning only the initial size counts.
    """
    l1 = first_level(tier)
    pinned = l1.size_gib if l1.hugepages else initial_size(tier)
    return max(int(tier.spec.startup_timeout_seconds), 60 + 2 * pinned)


def initial_size(tier: Tier) -> int:
    """GiB that are pinned at start without hugepages (LMCache's default is 20)."""
    l1 = first_level(tier)
    return l1.initial_size_gib or min(20, l1.size_gib)
