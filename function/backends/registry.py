"""The modules of backends by the value of `spec.backend`, imported on first use."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import MappingProxyType

from function.api.backends import SPECS, field_name
from function.api.base import ApiModel
from function.api.tier import TierSpec, with_backends
from function.contract.backend import AnyBackend


@dataclass(frozen=True)
class Registry:
    """The backends that a tier may name.

    `specs`: {value of spec.backend: type of its settings}. `package`: the package of their modules,
    named like the fields of their settings.
    """

    specs: Mapping[str, type[ApiModel]]
    package: str = "function.backends"

    @cached_property
    def tier_spec(self) -> type[TierSpec]:
        """Return the type of a tier's spec with these backends."""
        return with_backends("KVOffloadTierSpec", TierSpec, self.specs)

    def __getitem__(self, name: str) -> AnyBackend:
        """Return the backend of that name. Raise KeyError for an unknown one."""
        if name not in self.specs:
            raise KeyError(f"{name} is not a backend; known: {', '.join(self.specs)}")
        backend: AnyBackend = import_module(f"{self.package}.{field_name(name)}").BACKEND
        return backend


BACKENDS = Registry(MappingProxyType(SPECS))
