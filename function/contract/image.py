"""The image that a tier's own processes run, and the backend's version in it."""

from dataclasses import dataclass
from typing import Self

from packaging.version import Version

from function.api import placement
from function.contract.versions import parse


@dataclass(frozen=True)
class Image:
    """`reference`: with tag or digest. `version`: of the backend in it, None where nobody says."""

    reference: str
    version: Version | None
    repository: str
    pull_policy: str
    pull_secrets: tuple[str, ...]

    @classmethod
    def of(cls, spec: placement.AgentImage, repository: str, tag: str) -> Self:
        """Return the image of a tier (`spec.image`), by default the backend's stock one.

        A digest tells no version: the schema asks for `version` beside it.
        """
        repository, tag = spec.repository or repository, spec.tag or tag
        reference = f"{repository}@{spec.digest}" if spec.digest else f"{repository}:{tag}"
        return cls(
            reference=reference,
            version=parse_version(spec.version or ("" if spec.digest else tag)),
            repository=repository,
            pull_policy=spec.pull_policy,
            pull_secrets=tuple(s.name for s in spec.pull_secrets),
        )


def parse_version(text: str) -> Version | None:
    """`v0.5.6`, `0.5.6-cu129` and `v0.5.6-lightweight` are 0.5.6; `latest` is None."""
    return parse(text.lstrip("v").partition("-")[0])
