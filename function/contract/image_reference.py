"""An image reference taken apart: the one place that knows where its parts begin and end.

Reference: the grammar of the OCI distribution's `reference` package. A pod's `image` is a string of
the user's; what does not follow the grammar is split all the same, and never raises.
"""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class ImageReference:
    """`registry:port/path:tag@digest`; "" for every part that the reference does not give.

    `registry`: with its port ("localhost:5000"). `path`: without the registry and as written, so
    "vllm/vllm-openai" and "ubuntu". `digest`: with its algorithm ("sha256:...").
    """

    registry: str
    path: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, reference: str) -> "ImageReference":
        """Take a reference apart; short ones are remembered."""
        return _parse(reference) if len(reference) <= 512 else _parse.__wrapped__(reference)

    @property
    def repository(self) -> str:
        """Return registry and path as written, without tag and digest."""
        return f"{self.registry}/{self.path}" if self.registry else self.path

    @property
    def name(self) -> str:
        """Return the last element of the path: "vllm-openai" of any registry and mirror."""
        return self.path.rpartition("/")[2]

    def ends_with(self, path: str) -> bool:
        """Return whether the repository ends in these path elements, as mirrors of it do.

        "vllm/vllm-openai" fits "docker.io/vllm/vllm-openai" and "mirror.corp/hub/vllm/vllm-openai",
        not "myvllm/vllm-openai". "" fits every image.
        """
        return not path or f"/{self.path}".endswith(f"/{path}")


@lru_cache(1024)
def _parse(reference: str) -> ImageReference:
    rest, _, digest = reference.partition("@")
    head, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    first, more, path = (head + slash + last).partition("/")
    # As in `docker pull`: a first element is a host only if it cannot be a user's name.
    if more and (first == "localhost" or "." in first or ":" in first):
        return ImageReference(first, path, tag, digest)
    return ImageReference("", first + more + path, tag, digest)
