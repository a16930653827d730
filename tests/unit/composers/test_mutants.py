"""What `python -m tests.world.mutants` would change is there to be changed."""

import pytest

from tests.world.mutants import MUTANTS, ROOT


@pytest.mark.parametrize(("file", "old", "new"), MUTANTS)
def test_a_mutant_changes_one_place(file: str, old: str, new: str) -> None:
    assert (ROOT / file).read_text().count(old) == 1
    assert old != new
