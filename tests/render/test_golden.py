"""Checks of the goldens: errors in full and in differential goldens are found."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.render import case as cases
from tests.render import engines, run

# A case that others are like, and one like it, with a pass that fails and one after it.
BASE, LIKE = "tier/lmcache/smallest", "tier/bad-input-running"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The two cases in a folder of their own."""
    for name in (BASE, LIKE):
        shutil.copytree(cases.CASES / name, tmp_path / name)
    monkeypatch.setattr(cases, "CASES", tmp_path)
    return tmp_path


def _wrong(folder: Path, *, update: bool = False) -> list[str]:
    return [
        said
        for name in (BASE, LIKE)
        for said in run.check(cases.load(folder / name), engines.embedded, "embedded", update)
    ]


def _replace(old: str, new: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return edit


# (golden, what is wrong in it, what is said, of how many passes)
WRONG = [
    # A whole golden is what everything else stands on.
    (f"{BASE}/expected.yaml", _replace("- '5555'", "- '5556'"), "+              - '5555'", 7),
    (f"{LIKE}/changes-ready.yaml", _replace("3/3", "2/3"), "+    summary: 3/3", 3),
    (f"{LIKE}/changes-ready.yaml", _replace("status.agents", "status.agent"), "no status.agent", 3),
    (f"{LIKE}/changes-ready.yaml", _replace("set:", "sets:"), "not a change", 3),
    (f"{LIKE}/changes-ready.yaml", _replace("set:", "set:\n  kind: KVOffloadTier"), "run `make", 1),
    (f"{LIKE}/changes-mended.yaml", lambda text: "# Whatever.\n", "run `make goldens`", 1),
    (f"{LIKE}/changes-bad.yaml", _replace("Failure", "Failed"), "+kind: Failure", 1),
]


@pytest.mark.parametrize(("name", "edit", "said", "passes"), WRONG)
def test_errors_in_goldens_are_found(
    name: str, edit: Callable[[str], str], said: str, passes: int, folder: Path
) -> None:
    assert _wrong(folder) == []
    right = (folder / name).read_text()
    (folder / name).write_text(edit(right))
    found = _wrong(folder)
    assert sum(said in text for text in found) == passes, "\n".join(found)
    _wrong(folder, update=True)
    assert (folder / name).read_text() == right


def test_missing_goldens_are_found_and_surplus_ones_removed(folder: Path) -> None:
    (folder / LIKE / "changes-bad.yaml").rename(folder / LIKE / "changes-other.yaml")
    assert any("changes-bad.yaml is missing" in said for said in _wrong(folder))
    _wrong(folder, update=True)
    assert _wrong(folder) == []
    assert not (folder / LIKE / "changes-other.yaml").exists()


def test_chained_like_references_are_refused(folder: Path) -> None:
    (folder / "third").mkdir()
    (folder / "third/case.yaml").write_text(f"like: {LIKE}\n")
    shutil.copy(folder / LIKE / "xr.yaml", folder / "third")
    third = cases.load(folder / "third")
    shutil.copy(folder / LIKE / "changes.yaml", folder / "third")
    (said,) = run.check(third, engines.embedded, "embedded", update=False)
    assert "which is like another case" in said
