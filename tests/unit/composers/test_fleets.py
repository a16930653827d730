"""Histories of fleets with overrides, waves and labels; `make fuzz` plays more of them."""

import pytest

from tests.fuzz import fleets


@pytest.mark.parametrize("number", range(12))
def test_fleet_over_time(number: int) -> None:
    assert fleets.play(number) == ""
