"""Whole tiers of a backend and what becomes of them: `specs/NAME.yaml` -> `golden/NAME.yaml`.

A difference means that agents or engines are rolled by a release: read it, and name it in the
changelog.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from function.contract.backend import Backend, Tier
from function.contract.engine import Engine


@dataclass(frozen=True)
class Goldens:
    """The cases in `folder`. `engines`: whose injection is shown, by its key in the golden."""

    folder: Path
    backend: Backend
    tier: Callable[[Any], Tier]
    engines: Mapping[str, Engine]

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in (self.folder / "specs").glob("*.yaml")))

    def load(self, folder: str, case: str) -> Any:
        return yaml.safe_load((self.folder / folder / f"{case}.yaml").read_text())

    def answer(self, case: str) -> dict[str, Any]:
        """Everything that the backend says about a case."""
        of = self.tier(self.load("specs", case))
        return {
            "problems": [str(p) for p in self.backend.problems(of)],
            "description": {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in asdict(self.backend.describe(of)).items()
            },
            "sharesByModelString": self.backend.shares_by_model_string(of),
            **{
                name: self.backend.inject(of, engine).to_json()
                for name, engine in self.engines.items()
            },
            "parts": {part.key: _part(asdict(part)) for part in self.backend.parts(of)},
        }

    def write(self) -> None:
        """Write the goldens anew."""
        for case in self.cases:
            text = yaml.dump(self.answer(case), Dumper=_Dumper, sort_keys=False, width=100)
            (self.folder / "golden" / f"{case}.yaml").write_text(text)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    del part["key"]
    return {name: value for name, value in part.items() if value}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
