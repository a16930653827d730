"""What a backend decides about whole tiers: the spec of a render case -> `golden/NAME.yaml`.

The tiers are those of the render cases `tier/BACKEND/NAME`, whose goldens hold the manifests. Here
is what no manifest shows: problems, the description, what an engine's pod gets, the parts' roles;
whole for the smallest tier, as what differs from it for all others. A difference means that a
release rolls engines: read it, and name it in the changelog.

    python -m tests.unit.backends.goldens     # writes them anew; `make goldens` writes all
"""

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from function.contract.backend import Backend, Description, Part, Pinned, Tier
from function.contract.engine import Engine
from kv_offload.render import emit, files
from tests.render import changes
from tests.render.case import CASES

HERE = Path(__file__).parent
BASE = "smallest"


@dataclass(frozen=True)
class Goldens:
    """The goldens of one backend. `engines`: whose injection is shown, by its key in the golden."""

    folder: Path
    backend: Backend
    tier: Callable[[Any], Tier]
    engines: Mapping[str, Engine]

    @property
    def cases(self) -> tuple[str, ...]:
        """The base first."""
        names = {path.parent.name for path in self._specs.glob("*/xr.yaml")}
        return (BASE, *sorted(names - {BASE}))

    @property
    def _specs(self) -> Path:
        return CASES / "tier" / self.folder.name

    def of(self, case: str) -> Tier:
        """The tier of a case."""
        return self.tier(files.load_one(self._specs / case / "xr.yaml", "tier")["spec"])

    def path(self, case: str) -> Path:
        return self.folder / "golden" / f"{case}.yaml"

    def unexpected_files(self) -> set[Path]:
        """Goldens of no case."""
        return {*self.path(BASE).parent.iterdir()} - {self.path(case) for case in self.cases}

    def answer(self, case: str) -> dict[str, Any]:
        """What the backend says about a case, as an API server would see it."""
        of = self.of(case)
        said = {
            "problems": [str(p) for p in self.backend.problems(of)],
            "description": _description(self.backend.describe(of)),
            "pinned": [_pinned(row) for row in self.backend.pinned(of) if row.value],
            **{
                name: _injection(self.backend.inject(of, engine).to_json())
                for name, engine in self.engines.items()
            },
            "parts": [_role(part) for part in self.backend.parts(of)],
        }
        return json.loads(json.dumps(said))

    def expected(self, case: str) -> dict[str, Any]:
        """What the golden says that the answer must be."""
        said = files.parse(files.read_text(self.path(case)), case)
        return said[0] if case == BASE else changes.edited(self.expected(BASE), *said)

    def text(self, case: str) -> str:
        """The golden of a case as it must be written."""
        answer = self.answer(case)
        if case == BASE:
            return emit.to_yaml([answer])
        told = changes.edits(self.expected(BASE), answer)
        return f"# What differs from {BASE}.yaml.\n" + emit.to_yaml([told] if told else [])

    def write(self) -> None:
        """Write the goldens anew, and remove those of no case."""
        for case in self.cases:
            self.path(case).write_text(self.text(case))
        for unexpected in self.unexpected_files():
            unexpected.unlink()


def _injection(injection: dict[str, Any]) -> dict[str, Any]:
    """Without the text of programs, whose names carry a digest of it."""
    if "files" in injection:
        injection["files"] = {
            name: "(a program)" if name.endswith(".py") else text
            for name, text in injection["files"].items()
        }
    return injection


def _description(description: Description) -> dict[str, Any]:
    """Without what few tiers have."""
    rare = ("store", "spans_clusters", "one_identity")
    return {k: v for k, v in asdict(description).items() if v or k not in rare}


def _pinned(row: Pinned) -> dict[str, Any]:
    return {
        key: value
        for key, value in asdict(row).items()
        if value or key not in ("unset", "namespaces", "may", "widest")
    }


def _role(part: Part) -> dict[str, Any]:
    flags = {"keep": part.keep, "watch": part.watch}
    return {"key": part.key, "role": part.role} | {name: True for name, on in flags.items() if on}


def every() -> list[Goldens]:
    """The goldens of every backend: GOLDENS of each `BACKEND/golden.py`."""
    names = sorted(path.parent.name for path in HERE.glob("*/golden.py"))
    package = "tests.unit.backends"
    return [importlib.import_module(f"{package}.{name}.golden").GOLDENS for name in names]


if __name__ == "__main__":
    for one in every():
        one.write()
