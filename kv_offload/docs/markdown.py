"""How the generated pages are written."""

from collections.abc import Iterable, Sequence

from function.facts import FOLDER, document

HEADER = "<!-- Generated from {source} by `make generate`; edit that, not this page. -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table without the rows that are there already."""
    seen: dict[str, None] = {}
    for row in rows:
        seen["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"] = None
    return ["| " + " | ".join(head) + " |", "|-" * len(head) + "|", *seen]


def renewed(text: str, name: str, lines: Iterable[str]) -> str:
    """A page with the lines between the marks `generated: NAME` and `end: NAME`, which stay.

    Raises ValueError for a page without them.
    """
    start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    head, found, rest = text.partition(start)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page must hold {start} and, after it, {end}")
    return head + "\n".join((start, *lines, end)) + tail


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
