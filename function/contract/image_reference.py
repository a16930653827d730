"""An image reference taken apart: the one place that knows where its parts begin and end.

Reference: the grammar of the OCI distribution's `reference` package. A pod's `image` is a string of
the user's; what does not follow the grammar is split all the same, and never raises.
"""

from dataclasses import dataclass
from typing import Self


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
    def parse(cls, reference: str) -> Self:
        rest, _, digest = reference.partition("@")
        head, slash, last = rest.rpartition("/")
        last, _, tag = last.partition(":")
        first, more, path = (head + slash + last).partition("/")
        # As in `docker pull`: a first element is a host only if it cannot be a user's name.
        if more and (first == "localhost" or "." in first or ":" in first):
            return cls(first, path, tag, digest)
        return cls("", first + more + path, tag, digest)

    @property
    def repository(self) -> str:
        """Registry and path as written, without tag and digest."""
        return f"{self.registry}/{self.path}" if self.registry else self.path

    @property
    def name(self) -> str:
        """The last element of the path: "vllm-openai" of any registry and mirror."""
        return self.path.rpartition("/")[2]

    def ends_with(self, path: str) -> bool:
        """Whether the repository ends in these path elements, as mirrors of it do.

        "vllm/vllm-openai" fits "docker.io/vllm/vllm-openai" and "mirror.corp/hub/vllm/vllm-openai",
        not "myvllm/vllm-openai". "" fits every image.
        """
        return not path or f"/{self.path}".endswith(f"/{path}")
