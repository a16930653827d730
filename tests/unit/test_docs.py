"""The generated pages are what the tables say, and the tables are whole."""

from pathlib import Path

from function import docs
from function.reasons import REASONS, Pods, Reason

ROOT = Path(docs.__file__).parents[1]


def test_pages_are_up_to_date():
    assert docs.drift(ROOT) == []


def test_drift_is_noticed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert docs.main(["--check"]) == 1
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    (tmp_path / "docs/reasons.md").write_text("other")
    assert docs.drift(tmp_path) == ["docs/reasons.md"]
    assert "docs/versions.md differs from its table" in capsys.readouterr().out


def test_reasons_are_whole():
    for name, reason in REASONS.items():
        assert name is reason.name and name.isalnum() and name[0].isupper()
        assert reason.meaning.endswith(".") and reason.fix.endswith(".") and reason.example
        assert reason.pods in Pods
    assert [name for name, reason in REASONS.items() if reason.ready] == ["Wired"]
    assert set(REASONS) == set(Reason)


def test_pages_name_every_row():
    pages = docs.pages()
    assert all(f"## {name}\n" in pages["docs/reasons.md"] for name in REASONS)
    assert all(f"`{row.connector}`" in pages["docs/versions.md"] for row in docs.gate_rows())
    assert all(f"`{name}`" in pages["docs/connectors.md"] for name in docs.CONNECTORS)
