"""What is known of an image: a fact per package, and its engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from function.contract.packages import UNKNOWN, Fact, unknown


@dataclass(frozen=True)
class Contents:
    """What an image holds.

    `engine`: vLLM or SGLang. `version`: of the engine, None where the tag
    does not tell; `version_known` and `version_source` say how it is known. `at_most`: the image
    may hold an older one.

    `packages`: facts by the names of `PACKAGES`; a name that is missing is unknown. `accelerator`:
    cuda, rocm, xpu, cpu, hpu, neuron, npu, tpu, "" where the image does not tell. `moving`: the
    tag names another image tomorrow, so nothing is said of it.
    """

    engine: str
    version: str | None = None
    version_known: str = UNKNOWN
    version_source: str = ""
    packages: Mapping[str, Fact] = field(default_factory=dict)
    accelerator: str = ""
    moving: bool = False
    at_most: bool = False

    def package(self, name: str) -> Fact:
        """Return the fact of a package, an unknown one without a row."""
        return self.packages.get(name) or unknown("no row in docs/images.md")
