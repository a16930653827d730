"""Checks of namespaces on the workload cluster in which a tier places something."""

from collections.abc import Iterator
from dataclasses import dataclass

from function.contract.backend import AnyTier
from function.facts import Table
from function.problems import Problem

# Of the pods that Modelplane places, whatever the namespace of their consumer.
PODS = "default"


@dataclass(frozen=True)
class SystemNamespaces:
    """Namespaces of the cluster's own parts, by beginning and by name."""

    prefixes: tuple[str, ...]
    names: tuple[str, ...]


_ROWS = Table(SystemNamespaces, "namespaces", "namespaces")


def problems(namespace: str, field: str) -> Iterator[Problem]:
    """Yield the problem of a system namespace that `field` names."""
    (system,) = _ROWS
    if namespace.startswith(system.prefixes) or namespace in system.names:
        yield Problem(field, f"{namespace} belongs to the cluster's own parts: choose another one")


def claim_problems(tier: AnyTier, namespace: str, field: str) -> Iterator[Problem]:
    """Yield the problem of a claim's namespace: it must be one whose engines the tier serves."""
    yield from (found := list(problems(namespace, field)))
    allowed = tier.spec.allowed_namespaces
    admitted = {PODS, tier.namespace if allowed.from_ == "Same" else "", *allowed.names}
    if not found and allowed.from_ != "All" and namespace not in admitted:
        yield Problem(
            field,
            f"{namespace} is not admitted by spec.allowedNamespaces: add it there (from: Names), "
            "or name a namespace of engines that the tier serves",
        )
