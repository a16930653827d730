"""The tables of docs/security.md are those that tests/fuzz/worst.py measures."""

import itertools
from pathlib import Path

from tests.fuzz import worst

PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text().splitlines()


def rows(head: tuple[str, ...]) -> list[list[str]]:
    """The rows of the page's table with these columns."""
    after = PAGE[PAGE.index(worst.row(*head)) + 2 :]
    found = itertools.takewhile(lambda line: line.startswith("|"), after)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


def number(text: str, unit: str) -> float:
    assert text.endswith(f" {unit}"), text
    return float(text.removesuffix(f" {unit}").replace(",", ""))


def test_page_has_the_inputs_that_are_measured() -> None:
    found = {name: size for name, size, *_ in rows(worst.HEAD)}
    assert found == {name: f"{made(0).ByteSize():,}" for name, made in worst.INPUTS.items()}


def test_figures_of_the_page_are_below_the_bounds() -> None:
    for _, _, seconds, mib in rows(worst.HEAD):
        assert number(seconds, "ms") / 1e3 < worst.MOST_SECONDS
        assert number(mib, "MiB") < worst.MOST_MIB
    neighbours = rows(worst.HEAD_NEIGHBOURS)
    assert [name for name, *_ in neighbours] == ["cold", "steady"]
    for _, median, most in neighbours:
        assert number(median, "ms") <= number(most, "ms") < worst.MOST_SLOWED * 1e3


def test_page_names_the_bounds() -> None:
    bounds = f"{worst.MOST_SECONDS:.0f} s, {worst.MOST_MIB:.0f} MiB, or {worst.MOST_SLOWED:g} s"
    assert any(f"fails above {bounds}" in line for line in PAGE)
