"""docs/accelerators.md: how a pod's accelerator is recognised, and which backend serves it."""

import re
from collections.abc import Iterator

from function.contract.accelerators.detect import (
    DEVICE_CLASSES,
    NODE_LABELS,
    RESOURCES,
    SHARED_NODES,
)
from function.contract.accelerators.kinds import NAMES
from kv_offload.docs.backend_rows import accelerator_rows
from kv_offload.docs.markdown import HEADER, code, connectors, grouped, page, table

_HINTS = (
    ("Shown by resources", RESOURCES),
    ("Shown by device classes (DRA)", DEVICE_CLASSES),
    ("Shown by the node selector", NODE_LABELS),
    ("Sharing shown by the node selector", SHARED_NODES),
)


def text() -> str:
    """Return the page."""
    out = [
        HEADER.format(source="function/facts/accelerators.yaml and each backend's facts.yaml"),
        "# Which accelerators can a tier serve?",
        "",
        "A pod's accelerator is shown by its container's resources, by the device classes of its "
        "claim templates, by its image (a word such as `-rocm`, or [a known image](images.md)), or "
        "by its node selector, in this order. Otherwise it counts as served. Without a row for it "
        "the pod is left alone (`OutOfScope`). A variant (`HiCache/file`) needs its connector's "
        "rows too.",
        "",
        "## Which connector serves them",
        "",
        *table(("Connector", "On", "Tiers", "What"), grouped(_served())),
    ]
    for title, hints in _HINTS:
        rows = ((code(h.key), h.accelerator, h.sharing) for h in hints)
        out += ["", f"## {title}", "", *table(("Name", "Is", "Shared by"), rows)]
    return page(out)


def _served() -> Iterator[tuple[str, ...]]:
    """Yield a row per connector and answer, with the accelerators that share it."""
    name = connectors((row.connector, row.engine) for row in accelerator_rows())
    places: dict[tuple[str, ...], dict[str, None]] = {}
    for row in accelerator_rows():
        what = f"{row.served.value}: {row.message}" if row.message else row.served.value
        on = re.sub("^an? ", "", NAMES[row.accelerator])
        on += f" by {row.sharing}" if row.sharing else ""
        key = (name(row.connector, row.engine), code(row.mode), what)
        places.setdefault(key, {})[on] = None
    for (connector, mode, what), found in places.items():
        yield connector, ", ".join(found), mode, what
