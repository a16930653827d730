"""Facts about other people's releases: YAML files, read once and checked as they are read.

README.md in this folder says how such a file is written.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from types import UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import yaml

FOLDER = Path(__file__).parent
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_TEXT = re.compile(r"\{([a-z][a-z0-9_]*\.)?([a-z][a-z0-9_]*)\}")
_ABOUT_THE_FILE = frozenset(("about", "date", "source", "texts"))

Fact = TypeVar("Fact")
Convert = Callable[[Any], Any]


class FactError(ValueError):
    """A facts file that does not follow its schema; the message names file, section and row."""


@dataclass(frozen=True)
class Document:
    """One facts file.

    `about`: paragraphs for its page. `date`: when its rows were last compared with their sources.
    `source`: of the rows that name none. `texts`: what `{name}` stands for in a row.
    """

    about: tuple[str, ...]
    date: date
    source: str
    texts: Mapping[str, str]
    sections: Mapping[str, Any]


class Table(Sequence[Fact], Generic[Fact]):
    """The rows of one section of a facts file, read when they are first looked at.

    `row`: their dataclass. `file`: a path, or the name of a file in this folder.
    """

    every: "list[Table[Any]]" = []

    def __init__(self, row: type[Fact], file: Path | str, section: str) -> None:
        self.row: Any = row
        self.path = file if isinstance(file, Path) else FOLDER / f"{file}.yaml"
        self.section = section
        self.every.append(self)

    @cached_property
    def rows(self) -> tuple[Fact, ...]:
        """Every row. Raises FactError for one that does not follow the schema."""
        found = document(self.path)
        section = found.sections.get(self.section)
        if not isinstance(section, list):
            raise FactError(f"{self.path.name}: no list of rows under {self.section!r}")
        return tuple(self._row(found, i, data) for i, data in enumerate(section))

    def _row(self, found: Document, index: int, data: Any) -> Fact:
        where = f"{self.path.name}: {self.section}[{index}]"
        if not isinstance(data, dict):
            raise FactError(f"{where}: is no mapping")
        data = dict(data)
        _date(data.pop("date", str(found.date)), where)
        of_others = any(field.name == "source" for field in fields(self.row))
        if of_others and found.source:
            data.setdefault("source", found.source)
        if of_others and not data.get("source"):
            raise FactError(f"{where}: has no source")
        try:
            row: Fact = _of(self.row)(_resolved(data, self.path))
        except ValueError as error:
            raise FactError(f"{where}: {error}") from None
        return row

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@cache
def document(path: Path) -> Document:
    """Return the file at `path`. Raise FactError for one that says no date."""
    data = yaml.load(path.read_text(), Loader=_LOADER)  # safe: builds texts, lists and mappings
    about = (" ".join(text.split()) for text in data.get("about", "").split("\n\n"))
    return Document(
        tuple(filter(None, about)),
        _date(data.get("date", ""), path.name),
        data.get("source", ""),
        data.get("texts", {}),
        {name: section for name, section in data.items() if name not in _ABOUT_THE_FILE},
    )


def _date(given: str, where: str) -> date:
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise FactError(f"{where}: {given!r} is not a date, such as 2026-11-22") from None


def _resolved(value: Any, path: Path) -> Any:
    """Return the value with each `{name}` replaced; `{file.name}` is a text of another file."""
    if isinstance(value, dict):
        return {name: _resolved(each, path) for name, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, path) for each in value]
    if "{" not in value:
        return value

    def found(match: re.Match[str]) -> str:
        other = FOLDER / f"{match[1][:-1]}.yaml" if match[1] else path
        texts = document(other).texts
        if match[2] not in texts:
            raise ValueError(f"no text is named {match[0]}")
        return str(_resolved(texts[match[2]], other))

    return _TEXT.sub(found, value)


@cache
def _of(kind: Any) -> Convert:
    """Return what makes a value of this type of a YAML value, all of whose scalars are text."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (tuple, frozenset):
        each = _of(arguments[0])
        return lambda value: origin(map(each, _flat(value)))
    if origin is Mapping:
        value_of = _of(arguments[1])
        return lambda value: {name: value_of(each) for name, each in value.items()}
    if origin is UnionType:
        return _of(next(each for each in arguments if each is not type(None)))
    if kind is bool:
        return _boolean
    if kind is str:
        return _string
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    found: Convert = _dataclass(kind) if is_dataclass(kind) else kind
    return found


def _flat(value: Any) -> Iterator[Any]:
    """Yield the items of a list and of the lists in it; a single value is a list of one."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, list):
            yield from each
        else:
            yield each


def _dataclass(kind: Any) -> Convert:
    hints = get_type_hints(kind)
    known = {field.name: _of(hints[field.name]) for field in fields(kind) if field.init}
    needed = {
        field.name
        for field in fields(kind)
        if field.init and field.default is MISSING and field.default_factory is MISSING
    }

    def convert(data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValueError(f"{data!r} is no mapping")
        for name in sorted(data.keys() - known.keys()):
            raise ValueError(f"unknown key {name!r}")
        for name in sorted(needed - data.keys()):
            raise ValueError(f"{name!r} is missing")
        return kind(**{name: known[name](value) for name, value in data.items()})

    return convert


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _boolean(value: Any) -> bool:
    if value not in ("true", "false"):
        raise ValueError(f"{value!r} is neither true nor false")
    return bool(value == "true")
