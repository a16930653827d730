"""The rows of every backend's facts.yaml."""

from collections.abc import Iterator

from function.api.backends import field_name
from function.backends.registry import BACKENDS
from function.contract.accelerators.serving import AcceleratorRow
from function.contract.backend import AnyBackend
from function.contract.gate import GateRow
from function.contract.models.support import FamilyRow


def gate_rows() -> Iterator[GateRow]:
    """Yield the gate's rows of every backend."""
    for backend in _backends():
        yield from backend.rows.gate


def model_rows() -> Iterator[FamilyRow]:
    """Yield the model rows of all backends, shared ones once."""
    yield from dict.fromkeys(row for backend in _backends() for row in backend.rows.models)


def accelerator_rows() -> Iterator[AcceleratorRow]:
    """Yield the accelerator rows of all backends, shared ones once."""
    yield from dict.fromkeys(row for backend in _backends() for row in backend.rows.accelerators)


def _backends() -> Iterator[AnyBackend]:
    return (BACKENDS[name] for name in sorted(BACKENDS.specs, key=field_name))
