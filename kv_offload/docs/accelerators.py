"""docs/accelerators.md: how a pod's accelerator is told, and which backend serves it."""

from collections.abc import Iterable

from function.backends.registry import accelerator_rows
from function.contract.accelerators.detect import (
    DEVICE_CLASSES,
    NODE_LABELS,
    RESOURCES,
    SHARED_NODES,
)
from function.contract.accelerators.kinds import NAMES
from kv_offload.docs.markdown import HEADER, code, page, table

_HINTS = (
    ("Told by resources", RESOURCES),
    ("Told by device classes (DRA)", DEVICE_CLASSES),
    ("Told by the node selector", NODE_LABELS),
    ("Shared, as the node selector says", SHARED_NODES),
)


def text() -> str:
    out = [
        HEADER.format(source="function/contract/accelerators and each backend's accelerators.py"),
        "# Accelerators",
        "",
        "An engine's accelerator is told by the resources of its container, by the device classes "
        "of the claim templates that are desired beside it, by its image (a word "
        "such as `-rocm` in the name or tag, or [what is known of it](images.md)), and by its node "
        "selector, in this order. Where none tells, it counts as served. An accelerator that a "
        "connector has no row for is out of scope: the pod is left alone. A variant "
        "(`HiCache/file`) is held to its connector's rows too.",
        "",
        "## Which connector serves them",
        "",
        *table(("Connector", "Engine", "On", "Of tiers", "What", "Source"), _served()),
    ]
    for title, hints in _HINTS:
        rows = ((code(h.key), h.accelerator, h.sharing, h.source) for h in hints)
        out += ["", f"## {title}", "", *table(("Name", "Is", "Shared by", "Source"), rows)]
    return page(out)


def _served() -> Iterable[tuple[str, ...]]:
    for row in accelerator_rows():
        on = NAMES[row.accelerator]
        yield (
            code(row.connector),
            row.engine,
            f"{on}, by {row.sharing}" if row.sharing else on,
            code(row.mode),
            f"{row.served.value}: {row.message}" if row.message else row.served.value,
            row.source,
        )
