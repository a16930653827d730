"""Write tables, links and sections of the generated pages."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from function.facts import FOLDER, document

HEADER = "<!-- Generated from {source} by `make generate`; edit that, not this page. -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table without repeated rows."""
    seen: dict[str, None] = {}
    for row in rows:
        seen["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"] = None
    return ["| " + " | ".join(head) + " |", "|-" * len(head) + "|", *seen]


class Sources:
    """Texts that many rows of a page share: each once in a section, and by number in the rows."""

    def __init__(self, title: str = "Sources") -> None:
        self._title = title
        self._seen: dict[str, int] = {}

    def __call__(self, source: str) -> str:
        """Return the link from a row."""
        number = self._seen.setdefault(source, len(self._seen) + 1)
        return f"[{number}](#{self._title.lower().replace(' ', '-')})"

    def lines(self) -> list[str]:
        """Return the section that the links lead to."""
        numbered = (f"{number}. {source}" for source, number in self._seen.items())
        return ["", f"## {self._title}", "", *numbered]


def grouped(rows: Iterable[Sequence[str]], joint: str = ", ") -> Iterator[tuple[str, ...]]:
    """Join the first cells of rows that are equal in all others."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for first, *rest in rows:
        found.setdefault(tuple(rest), {})[first] = None
    for others, firsts in found.items():
        yield (joint.join(firsts), *others)


def connectors(rows: Iterable[tuple[str, str]]) -> Callable[[str, str], str]:
    """Return how a page names a connector: with its engine where two engines have one."""
    engines: dict[str, set[str]] = {}
    for connector, engine in rows:
        engines.setdefault(connector, set()).add(engine)
    return lambda name, engine: code(name) + (f" ({engine})" if len(engines[name]) > 1 else "")


def page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def about(name: str) -> list[str]:
    """Return what a facts file says about itself, a paragraph per line."""
    paragraphs = document(FOLDER / f"{name}.yaml").about
    return [line for text in paragraphs for line in (text, "")][:-1]


def first_and_last(versions: Sequence[str]) -> str:
    """Return "0.20.0 to 0.33.0"."""
    return f"{versions[0]} to {versions[-1]}"


def code(text: str) -> str:
    return f"`{text}`" if text else ""
