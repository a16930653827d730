"""Results about a document that cost the same whether they are remembered or not.

The budget of a call decides which workloads are read. A result that is remembered is charged like
one that is made, so that the answer does not depend on what this process has seen before.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from function.command import budget
from function.edge import structs

T = TypeVar("T")


def recall(
    document: Mapping[str, Any],
    make: Callable[[], T],
    *objects: Any,
    key: tuple[Hashable, ...] = (),
) -> T:
    """Return `make()` or its earlier result (see Derived.get), and charge the call for it.

    Raises CallSpent where the call cannot afford it; nothing is remembered then.
    """
    call = budget.current()
    made = False

    def measured() -> tuple[T, dict[str, int]]:
        nonlocal made
        made, before = True, dict(call.counted)
        result = make()
        return result, {name: n - before.get(name, 0) for name, n in call.counted.items()}

    result, cost = structs.derived(document).get(measured, *objects, key=key)
    if made:
        return result
    if not call.affords(cost):
        return make()  # ends at the same limit, after the same work
    for name, amount in cost.items():
        call.charge(name, amount)
    return result
