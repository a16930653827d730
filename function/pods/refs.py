"""How a workload names its tier: the annotations of its pods, or a field of the composite."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ref:
    """A tier by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
