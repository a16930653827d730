"""What all tests of the evictor have in common."""

import pytest

from programs.evictor import directory, lease
from tests.unit.programs.evictor import Clock


@pytest.fixture(autouse=True)
def no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is as large as it says, whatever the blocks of this machine's disk."""
    monkeypatch.setattr(directory, "size_of", lambda status: status.st_size)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(lease, "time", found)
    return found
