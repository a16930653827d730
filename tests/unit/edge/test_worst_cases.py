"""docs/security.md names the bounds that tests/fuzz/worst.py holds calls to."""

from pathlib import Path

from tests.fuzz import worst

PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text().splitlines()


def test_page_names_the_bounds() -> None:
    bounds = f"{worst.MOST_SECONDS:.0f} s, {worst.MOST_MIB:.0f} MiB, or {worst.MOST_BESIDE:.0f} s"
    assert any(f"fails above {bounds}" in line for line in PAGE)
