"""The pages that are generated from tables of the code and of its facts.

`python -m kv_offload.docs` writes them below the current directory; `--check` only says which
differ (exit 1). A unit test holds them to the tables.
"""

from collections.abc import Sequence
from pathlib import Path

from kv_offload.docs import (
    accelerators,
    advisories,
    commands,
    connectors,
    dashboards,
    images,
    matrix,
    metrics,
    models,
    neighbours,
    platforms,
    reasons,
    versions,
)


def pages() -> dict[str, str]:
    """Return every generated page: path below the repository's root -> content."""
    return {
        "docs/accelerators.md": accelerators.text(),
        "docs/advisories.md": advisories.text(),
        "docs/commands.md": commands.text(),
        "docs/connectors.md": connectors.text(),
        "docs/images.md": images.text(),
        "docs/metrics.md": metrics.text(),
        "docs/models.md": models.text(),
        "docs/neighbours.md": neighbours.text(),
        "docs/platforms.md": platforms.text(),
        "docs/reasons.md": reasons.text(),
        "docs/support.md": matrix.text(),
        "docs/versions.md": versions.text(),
        **dashboards.files(),
    }


def drift(root: Path) -> dict[str, str]:
    """Return the pages below `root` that differ from their tables, as they should be."""
    return {
        path: text
        for path, text in pages().items()
        if not (root / path).is_file() or (root / path).read_text() != text
    }


def main(arguments: Sequence[str]) -> int:
    root, changed = Path.cwd(), drift(Path.cwd())
    for path, text in changed.items():
        if "--check" in arguments:
            print(f"{path} differs from its table: run python -m kv_offload.docs")
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        print(path)
    return int("--check" in arguments and bool(changed))
