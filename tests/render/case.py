"""A render case: one folder.

    xr.yaml            the composite
    composition.yaml   its Composition; without one, what `kv-offload render` uses for that kind
    required/          documents that requirements find            (optional)
    observed/          observed composed resources                 (optional)
    schemas/           OpenAPI v3 documents                        (optional)
    credentials/       Secrets                                     (optional)
    case.yaml          {results, fullXr, context: bool; passes: [{name, simulate, required, xr}]}
    expected.yaml      the golden, in the canonical emitter; further passes: expected-NAME.yaml

A further pass renders again what a cluster would hold after the pass before: its composed resources
as `simulate.py` changes them, its composite with the status it got. `required` of a pass is a
folder beside `required/`, `xr` a file beside `xr.yaml`: they take their place from that pass on.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from function.render import files

Document = dict[str, Any]

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases"


@dataclass(frozen=True)
class Pass:
    """One render. `simulate`: how the pass before is changed into observed resources."""

    name: str
    simulate: str = ""
    required: str = "required"
    xr: str = "xr.yaml"


@dataclass(frozen=True)
class Case:
    """What a folder holds; documents are read once, passes are computed by the engines."""

    folder: Path
    xr: Document
    composition: Document
    results: bool
    full_xr: bool
    context: bool
    passes: tuple[Pass, ...]

    @property
    def name(self) -> str:
        inside = self.folder.is_relative_to(CASES)
        return self.folder.relative_to(CASES).as_posix() if inside else self.folder.as_posix()

    @property
    def functions(self) -> set[str]:
        return {step["functionRef"]["name"] for step in self.composition["spec"]["pipeline"]}

    def documents(self, part: str) -> list[Document]:
        """The documents of an optional subfolder."""
        path = self.folder / part
        if not path.is_dir():
            return []
        return files.load_schemas(path) if part == "schemas" else files.load(path)

    def composite(self, one: Pass) -> Document:
        """What the user wrote, as it stands in this pass."""
        return files.load_one(self.folder / one.xr, "composite")

    def golden(self, one: Pass) -> Path:
        return self.folder / (f"expected-{one.name}.yaml" if one.name else "expected.yaml")


def load(folder: Path) -> Case:
    options: Document = {}
    if (folder / "case.yaml").is_file():
        options = files.parse(files.read_text(folder / "case.yaml"), "case.yaml")[0]
    unknown = set(options) - {"results", "fullXr", "context", "passes"}
    if unknown:
        raise files.InputError(f"{folder}/case.yaml: unknown keys {sorted(unknown)}")
    passes = [Pass("")]
    for further in options.get("passes") or ():
        kept = {name: getattr(passes[-1], name) for name in ("required", "xr")}
        passes.append(Pass(**(kept | further)))
    xr = files.load_one(folder / "xr.yaml", "composite")
    return Case(
        folder=folder,
        xr=xr,
        composition=_composition(folder, xr),
        results=bool(options.get("results")),
        full_xr=bool(options.get("fullXr")),
        context=bool(options.get("context")),
        passes=tuple(passes),
    )


def _composition(folder: Path, xr: Document) -> Document:
    path = folder / "composition.yaml"
    if path.is_file():
        return files.load_one(path, "Composition")
    from function.render import defaults

    return defaults.composition(xr)


def all_cases() -> list[Case]:
    return [load(path.parent) for path in sorted(CASES.rglob("xr.yaml"))]
