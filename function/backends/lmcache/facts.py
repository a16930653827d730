"""Names, ports, images and versions of LMCache that more than one module needs.

The versions were read off the argument parsers of the wheels 0.5.4, 0.5.5 and 0.5.6.
"""

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from function.backends.base import Tier

NODE_SERVER = "NodeServer"
IN_PROCESS = "InProcess"
ISOLATED = "Isolated"
SHARED_MEMORY = "SharedMemory"

MQ_PORT = 5555
HTTP_PORT = 8080

STOCK_REPOSITORY = "lmcache/standalone"
STOCK_TAG = "v0.5.6"

OLDEST = Version("0.5.4")
# What a server of that version knows first.
SINCE = {
    "ipc Isolated": Version("0.5.5"),
    "registration.sessionSeconds": Version("0.5.6"),
    "l1.hugepages": Version("0.5.6"),
    "l1.evictionPolicy ARC": Version("0.5.6"),
}


@dataclass(frozen=True)
class Image:
    """The agents' image: a reference, and LMCache's version in it (None: nobody says)."""

    reference: str
    version: Version | None
    repository: str
    pull_policy: str
    pull_secrets: tuple[str, ...]

    @property
    def stock(self) -> bool:
        """Whether it is upstream's own server image (or a mirror that kept its name)."""
        return self.repository.rpartition("/")[2] == STOCK_REPOSITORY.rpartition("/")[2]

    def has(self, feature: str) -> bool:
        """Whether its LMCache knows a feature of SINCE."""
        return self.version is not None and self.version >= SINCE[feature]


def image(tier: Tier) -> Image:
    """The image of a tier's agents, the stock one where the spec says nothing."""
    given = tier.spec.image
    repository = given.repository or STOCK_REPOSITORY
    tag = given.tag or STOCK_TAG
    reference = f"{repository}@{given.digest}" if given.digest else f"{repository}:{tag}"
    return Image(
        reference=reference,
        version=parse_version(given.version or ("" if given.digest else tag)),
        repository=repository,
        pull_policy=given.pull_policy,
        pull_secrets=tuple(s.name for s in given.pull_secrets),
    )


def parse_version(text: str) -> Version | None:
    """`v0.5.6`, `0.5.6-cu129` and `v0.5.6-lightweight` are 0.5.6; `latest` is None."""
    try:
        return Version(text.lstrip("v").partition("-")[0])
    except InvalidVersion:
        return None


def host(tier: Tier) -> str:
    """The DNS name behind which an engine finds its own node's agent."""
    return f"{tier.remote_name}.{tier.remote_namespace}.svc"


def startup_seconds(tier: Tier) -> int:
    """How long an agent may take to start: the tier's own limit, or what pinning memory may take.

    The kubelet and the engines (`lmcache.mp.mq_timeout`) wait equally long. Two seconds a GiB is
    the budget that LMCache's operator has; with lazy pinning only the initial size counts.
    """
    l1 = tier.spec.backend_spec.l1
    pinned = l1.size_gib if l1.hugepages else initial_size(tier)
    return max(int(tier.spec.startup_timeout_seconds), 60 + 2 * pinned)


def initial_size(tier: Tier) -> int:
    """GiB that are pinned at start without hugepages (LMCache's default is 20)."""
    l1 = tier.spec.backend_spec.l1
    return l1.initial_size_gib or min(20, l1.size_gib)
