"""Facts files: each follows its schema, and violations are refused with their place."""

import importlib
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
import yaml

import function
from function.api.engines import ENGINES
from function.contract.stock_images import own
from function.contract.versions import known_versions
from function.facts import FactError, Table, document

ROOT = Path(function.__file__).parent
# What a backend says of its tiers, and what fields mean, is read by pages alone: no table.
_OF_PAGES = {*ROOT.rglob("variants.yaml"), *ROOT.glob("api/descriptions/*.yaml")}
_SHAPES = {ROOT / "workloads/pod_shape.yaml", ROOT / "contract/recorded.yaml"}
FILES = sorted({*ROOT.rglob("*.yaml")} - _OF_PAGES - _SHAPES)


def tables() -> dict[Path, dict[str, Table]]:
    """Return every table of the package, by file and section."""
    for path in (*ROOT.rglob("*.py"), *(ROOT.parent / "kv_offload").rglob("*.py")):
        if any(text in path.read_text() for text in ("from function.facts import", "rows(")):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            importlib.import_module(".".join(part for part in parts if part != "__init__"))
    for engine in ENGINES:
        assert known_versions(engine) and own.packages(engine, known_versions(engine)[0], "cuda")
    found: dict[Path, dict[str, Table]] = defaultdict(dict)
    for table in Table.every:
        if ROOT in table.path.parents:
            found[table.path][table.section] = table
    return found


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.yaml")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_file_is_read_alike_without_libyaml(path):
    """PyYAML's own parser takes less than libyaml: no `?` in a bare text of a flow mapping."""
    text = path.read_text()
    assert yaml.load(text, yaml.SafeLoader) == yaml.load(text, yaml.CSafeLoader)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sections_match_their_tables_and_rows(path):
    known = tables().get(path, {})
    assert document(path).sections.keys() == known.keys()
    for table in known.values():
        assert len(table) > 0


def test_every_fact_text_is_used():
    everything = "".join(path.read_text() for path in FILES)
    for path in FILES:
        for name in document(path).texts:
            used = f"{{{name}}}" in path.read_text() or f"{{{path.stem}.{name}}}" in everything
            assert used, f"{path.name}: nothing uses {name}"


class Way(Enum):
    FAST = "fast"


@dataclass(frozen=True)
class Part:
    size: int


@dataclass(frozen=True)
class Row:
    name: str
    source: str
    versions: tuple[str, ...] = ()
    families: frozenset[str] = frozenset()
    way: Way | None = None
    sure: bool = False
    parts: tuple[Part, ...] = ()


def table(folder: Path, rows: str, head: str = "date: 2026-11-22\n") -> Table[Row]:
    path = folder / "some.yaml"
    path.write_text(f"{head}texts: {{read: 'up to {{newest}}', newest: 0.30}}\nrows:\n{rows}\n")
    document.cache_clear()
    return Table(Row, path, "rows")


def test_scalars_are_strings_until_typed_by_the_row(tmp_path):
    rows = table(
        tmp_path,
        "- {name: 0.30, source: 'x, {read}', versions: [0.20, 1.0], families: [b, a], way: fast,\n"
        "   sure: true, parts: [{size: 3}], date: 2026-11-01}\n"
        "- {name: 'a{2}', source: y, versions: 0.20}",
    )
    assert list(rows) == [
        Row("0.30", "x, up to 0.30", ("0.20", "1.0"), frozenset("ab"), Way.FAST, True, (Part(3),)),
        Row("a{2}", "y", ("0.20",)),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("- {name: x}", "some.yaml: rows[0]: has no source"),
        ("- {source: x}", "some.yaml: rows[0]: 'name' is missing"),
        ("- {name: x, source: x, nmae: y}", "some.yaml: rows[0]: unknown key 'nmae'"),
        ("- {name: [x], source: x}", "some.yaml: rows[0]: ['x'] is no text"),
        ("- {name: x, source: '{gone}'}", "some.yaml: rows[0]: no text is named {gone}"),
        ("- {name: x, source: x, sure: 1}", "some.yaml: rows[0]: '1' is neither true nor false"),
        ("- {name: x, source: x, way: slow}", "some.yaml: rows[0]: 'slow' is not a valid Way"),
        ("- {name: x, source: x, parts: [a]}", "some.yaml: rows[0]: 'a' is no mapping"),
        ("- {name: x, source: x, date: today}", "some.yaml: rows[0]: 'today' is not a date"),
        ("- x", "some.yaml: rows[0]: is no mapping"),
    ],
)
def test_schema_violations_are_refused_with_their_place(tmp_path, row, problem):
    with pytest.raises(FactError) as error:
        list(table(tmp_path, row))
    assert str(error.value).startswith(problem)


def test_a_file_needs_a_date(tmp_path):
    with pytest.raises(FactError, match=r"some.yaml: '' is not a date"):
        list(table(tmp_path, "- {name: x, source: x}", head=""))


def test_rows_without_source_inherit_that_of_the_file(tmp_path):
    assert list(table(tmp_path, "- {name: x}", "date: 2026-11-22\nsource: z\n")) == [Row("x", "z")]
