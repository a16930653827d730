"""Ranges of versions as people read them."""

import pytest

from function.contract.versions import in_words

RANGES = {
    (">=0.22,<0.28", ">=0.28,<0.34"): "0.22 to 0.33.x",
    (">=0.20,<0.34",): "0.20 to 0.33.x",
    (">=0.5.5,<0.6",): "0.5.5 to 0.5.x",
    (">=0.5.11,<0.5.24",): "0.5.11 to 0.5.23",
    (">=0.22,<0.25", ">=0.28"): "0.22 to 0.24.x or 0.28 or newer",
    (">=0.22,<0.25", ">=0.25"): "0.22 or newer",
    ("<0.30",): "older than 0.30",
    ("==0.3.13.*",): "0.3.13.x",
    (">=0.29",): "0.29 or newer",
}


@pytest.mark.parametrize("ranges", RANGES)
def test_range_in_words(ranges: tuple[str, ...]) -> None:
    assert in_words(*ranges) == RANGES[ranges]
