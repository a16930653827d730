"""docs/versions.md: which connector goes with which version of an engine."""

from collections.abc import Iterator, Sequence

from function.api.engines import ENGINES
from function.contract.gate import Caution, GateRow
from function.contract.versions import undeclared_versions
from kv_offload.docs.backend_rows import gate_rows
from kv_offload.docs.markdown import HEADER, code, first_and_last, grouped, page, table


def text() -> str:
    """Return the page."""
    spans = [f"{name} {first_and_last(undeclared_versions(name))}" for name in ENGINES]
    out = [
        HEADER.format(source="each backend's facts.yaml"),
        "# Which engine versions work with which connector?",
        "",
        "What is not here is refused (`EngineUnsupported`, `VersionMismatch`). An engine of "
        f"unknown version counts as any of {'; '.join(spans)}: a tier then uses only what all of "
        "them have. If they differ in whether the connector exists, declare the version by the "
        "annotation `modelplane.ai/kv-offload-engine-version`.",
        "",
        "Each row's source, what of it ran, and what a tier emits from which version on, is in the "
        "backend's `facts.yaml`.",
    ]
    for engine in ENGINES:
        out += _engine(engine, [row for row in gate_rows() if row.engine == engine])
    return page(out)


def _engine(engine: str, rows: Sequence[GateRow]) -> Iterator[str]:
    connectors = ((code(row.connector), code(row.versions), _package(row)) for row in rows)
    yield from ("", f"## {engine}", "")
    yield from table(("Connector", engine, "The tier's package"), grouped(connectors))
    cautions = grouped(_caution(row, caution) for row in rows for caution in row.cautions)
    yield from ("", f"### {engine}: warnings and refusals", "")
    yield from table(("Of", "When", "What"), _bases(cautions, rows))


def _bases(lines: Iterator[tuple[str, ...]], rows: Sequence[GateRow]) -> Iterator[tuple[str, ...]]:
    """Say `HiCache` and its variants where a line is of each connector `HiCache/...`."""
    names = [code(row.connector) for row in rows]
    for first, *rest in lines:
        for base in dict.fromkeys(name.partition("/")[0].strip("`") for name in names):
            variants = {name for name in names if name.startswith(f"`{base}/")}
            of = first.split(", ")
            if len(variants) > 1 and variants <= set(of):
                kept = [name for name in of if name not in variants]
                first = ", ".join([*kept, f"`{base}/*`"])
        yield (first, *rest)


def _package(row: GateRow) -> str:
    return f"{row.package} {code(row.package_versions)}" if row.package else ""


def _caution(row: GateRow, caution: Caution) -> tuple[str, ...]:
    when = [code(caution.engine) and f"{row.engine} {code(caution.engine)}"]
    when.append(code(caution.package) and f"{row.package} {code(caution.package)}")
    when_all = ", ".join(w for w in when if w) or "always"
    return code(row.connector), when_all, caution.message
