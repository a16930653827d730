"""docs/neighbours.md: pods that another controller wires, and programs that are no engine."""

from function.contract.no_engines import NO_ENGINES
from function.pods.other_injectors import FIELDS, INJECTORS
from kv_offload.docs.markdown import HEADER, code, page, table


def text() -> str:
    """Return the page."""
    injectors = [
        (
            row.owner,
            f"{row.place[:-1]} {code(row.key)}",
            ", ".join(map(code, row.values)),
        )
        for row in INJECTORS
    ]
    fields = [(row.owner, f"field {code('.'.join(row.path))} of {row.kind}", "") for row in FIELDS]
    return page(
        [
            HEADER.format(source="function/facts/neighbours.yaml"),
            "# Which pods are left alone?",
            "",
            "## Pods that another controller wires",
            "",
            "A pod that also asks one of these is `OutOfScope`: two injectors would overwrite "
            "each other.",
            "",
            *table(("Who", "Asked by", "Values"), injectors + fields),
            "",
            "## Programs that are no engine",
            "",
            "Images match by the end of their path, commands by their program or Python module.",
            "",
            *table(
                ("What", "Images", "Programs", "Modules"),
                ((r.label, *map(_several, (r.images, r.programs, r.modules))) for r in NO_ENGINES),
            ),
        ]
    )


def _several(names: tuple[str, ...]) -> str:
    return ", ".join(map(code, names))
