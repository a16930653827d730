"""docs/neighbours.md: pods that another controller wires, and programs that are no engine."""

from function.contract.no_engines import NO_ENGINES
from function.pods.other_injectors import FIELDS, INJECTORS
from kv_offload.docs.markdown import HEADER, code, page, table


def text() -> str:
    injectors = [
        (
            row.owner,
            f"{row.place[:-1]} {code(row.key)}",
            ", ".join(map(code, row.values)),
            row.source,
        )
        for row in INJECTORS
    ]
    fields = [
        (row.owner, f"field {code('.'.join(row.path))} of {row.kind}", "", row.source)
        for row in FIELDS
    ]
    return page(
        [
            HEADER.format(
                source="function/pods/other_injectors.py and function/contract/no_engines.py"
            ),
            "# Neighbours",
            "",
            "## Who else wires a KV cache",
            "",
            "A pod that asks one of these too is OutOfScope: two of them would overwrite each "
            "other.",
            "",
            *table(("Who", "Asked by", "Values", "Source"), injectors + fields),
            "",
            "## What is no engine",
            "",
            "Images by the end of their path, command lines by their program or Python module.",
            "",
            *table(
                ("What", "Images", "Programs", "Modules", "Source"),
                (
                    (r.label, *map(_several, (r.images, r.programs, r.modules)), r.source)
                    for r in NO_ENGINES
                ),
            ),
        ]
    )


def _several(names: tuple[str, ...]) -> str:
    return ", ".join(map(code, names))
