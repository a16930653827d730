"""From `spec.backend` to the module that answers for it, imported when it is first asked."""

from functools import cache
from importlib import import_module

from function.api.backends import SPECS, field_name
from function.contract.backend import Backend


@cache
def backend(name: str) -> Backend:
    """The backend of that name. Raises KeyError for a name that is not in the API's table."""
    if name not in SPECS:
        raise KeyError(f"{name} is not a backend; known: {', '.join(SPECS)}")
    found: Backend = import_module(f"function.backends.{field_name(name)}").BACKEND
    return found
