"""The relative links and anchors of Markdown pages, and which of them lead nowhere."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
# What people write, and what is generated: every page of the repository's documentation.
_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md")


def pages(root: Path) -> list[Path]:
    """Return every page, README first."""
    top = (root / name for name in _PAGES)
    return [*filter(Path.is_file, top), *sorted((root / "docs").rglob("*.md"))]


def targets(page: Path) -> Iterator[tuple[str, str]]:
    """Yield path and anchor of each relative link of a page; the path may be empty."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text()))
    for link in _LINK.findall(text):
        if "://" not in link and not link.startswith("mailto:"):
            path, _, anchor = link.partition("#")
            yield path, anchor


def broken(root: Path) -> list[str]:
    """Return `page: link` for every relative link without a file or without its anchor."""
    return [
        f"{page.relative_to(root)}: {path}{anchor and f'#{anchor}'}"
        for page in pages(root)
        for path, anchor in targets(page)
        if not _leads(page.parent / path if path else page, anchor)
    ]


def _leads(to: Path, anchor: str) -> bool:
    if not to.exists():
        return False
    return not anchor or (to.suffix == ".md" and anchor in _anchors(to))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    found: Counter[str] = Counter()
    out = set()
    for title in _HEADING.findall(_FENCE.sub("", page.read_text())):
        plain = re.sub(r"\]\([^)]*\)", "", title).lower().replace(" ", "-")
        anchor = re.sub(r"[^\w-]", "", plain)
        out.add(f"{anchor}-{found[anchor]}" if found[anchor] else anchor)
        found[anchor] += 1
    return out
