"""A render case: one folder.

    xr.yaml            the composite
    composition.yaml   its Composition; without one, what `kv-offload render` uses for that kind
    required/          documents that requirements find            (optional)
    observed/          observed composed resources                 (optional)
    schemas/           OpenAPI v3 documents                        (optional)
    credentials/       Secrets                                     (optional)
    case.yaml          {results, fullXr, context: bool; like: CASE; passes: [{name, ...}]}
    expected.yaml      the golden of the first pass, or changes.yaml (golden.py)
    changes-NAME.yaml  the golden of a further pass

A further pass renders again what a cluster would hold after the pass before: its composed resources
as `simulate.py` changes them, its composite with the status it got. A pass may name another folder
(`required`) or file (`xr`, `composition`), which takes the place of the usual one from then on.

`like`, of the first pass or of a further one, names a case whose first pass it varies: its golden
is then what differs from that one. A case takes each file and folder that it lacks from the case
that its first pass is like.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kv_offload.render import defaults, files

Document = dict[str, Any]

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases"


@dataclass(frozen=True)
class Pass:
    """One render. `simulate`: how the pass before is changed into observed resources.

    `like`: the case that its golden is told by, "" for the pass before.
    """

    name: str
    simulate: str = ""
    like: str = ""
    required: str = "required"
    xr: str = "xr.yaml"
    composition: str = "composition.yaml"


@dataclass(frozen=True)
class Case:
    """What a folder holds; documents are read once, passes are computed by the engines."""

    folder: Path
    xr: Document
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
        pipelines = [self.composition(one)["spec"]["pipeline"] for one in self.passes]
        return {step["functionRef"]["name"] for steps in pipelines for step in steps}

    def path(self, part: str) -> Path:
        """A file or folder: the case's own, or else that of the case that it is like."""
        own = self.folder / part
        return (
            CASES / self.passes[0].like / part if self.passes[0].like and not own.exists() else own
        )

    def documents(self, part: str) -> list[Document]:
        """The documents of an optional subfolder."""
        path = self.path(part)
        if not path.is_dir():
            return []
        return files.load_schemas(path) if part == "schemas" else files.load(path)

    def composite(self, one: Pass) -> Document:
        """What the user wrote, as it stands in this pass."""
        return files.load_one(self.path(one.xr), "composite")

    def composition(self, one: Pass) -> Document:
        """The case's own, or what `kv-offload render` uses for that kind."""
        path = self.path(one.composition)
        if path.is_file():
            return files.load_one(path, "Composition")
        return defaults.composition(self.xr)


def load(folder: Path) -> Case:
    options: Document = {}
    if (folder / "case.yaml").is_file():
        options = files.parse(files.read_text(folder / "case.yaml"), "case.yaml")[0]
    unknown = set(options) - {"results", "fullXr", "context", "like", "passes"}
    if unknown:
        raise files.InputError(f"{folder}/case.yaml: unknown keys {sorted(unknown)}")
    passes = [Pass("", like=options.get("like", ""))]
    for further in options.get("passes") or ():
        kept = {name: getattr(passes[-1], name) for name in ("required", "xr", "composition")}
        if not isinstance(further["name"], str):
            raise files.InputError(f"{folder}/case.yaml: pass {further['name']!r} is not a string")
        passes.append(Pass(**(kept | further)))
    xr = files.load_one(folder / "xr.yaml", "composite")
    return Case(
        folder=folder,
        xr=xr,
        results=bool(options.get("results")),
        full_xr=bool(options.get("fullXr")),
        context=bool(options.get("context")),
        passes=tuple(passes),
    )


def all_cases() -> list[Case]:
    """Every case, those that others are like before those."""
    cases = [load(path.parent) for path in sorted(CASES.rglob("xr.yaml"))]
    return sorted(cases, key=lambda case: any(one.like for one in case.passes))
