"""What a run has shown, case by case. Kept without times: equal runs leave equal bytes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """`facts`: figures that are the same on every run. `seconds`: for people, never kept."""

    pair: str
    case: str
    test: str
    facts: Mapping[str, Any]
    seconds: float | None


@dataclass
class Proofs:
    rows: list[Row] = field(default_factory=list)

    def add(
        self, pair: str, case: str, test: str, facts: Mapping[str, Any], seconds: float | None
    ) -> None:
        self.rows.append(Row(pair, case, test.partition("[")[0], dict(facts), seconds))

    def lines(self) -> list[str]:
        """One line a row, with its time."""
        out = []
        for row in self.rows:
            figures = [f"{name} {value}" for name, value in row.facts.items()]
            if row.seconds is not None:
                figures.append(f"{row.seconds:.1f} s")
            out.append(f"{row.pair:<16} {row.case}: {', '.join(figures)}")
        return out

    def write(self, path: Path) -> None:
        """Add these rows to the file's: pairs that did not run keep what stands there."""
        kept = json.loads(path.read_text()) if path.exists() else {}
        for name in {row.pair for row in self.rows}:
            kept[name] = {
                row.case: {"test": row.test, **row.facts} for row in self.rows if row.pair == name
            }
        path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
