"""The goldens of a case: what each pass is expected to print, byte for byte. `make goldens` writes.

The first pass of a case stands whole in `expected.yaml`. Everything else is told by what it varies
(`changes.py`): a further pass by the pass before, in `changes-NAME.yaml`; a pass that is `like`
another case by that case's first pass, in `changes.yaml` or `changes-NAME.yaml`. After a pass that
failed, the next is told by the last one that did not, as it starts from what that one composed.

The text of the evictor, which no pod is rolled for, stands in goldens as the name of its file.

What is compared is always the whole: `expected` puts it together from these files, and
`python -m tests.render.run --show CASE` prints it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import programs
from kv_offload.render import emit, files
from tests.render import case as cases
from tests.render import changes
from tests.render.case import Case, Document, Pass

_PROGRAM = {text: f"<programs/evictor/{name}>" for name, text in programs.texts("evictor").items()}

FAILURE = "Failure"  # the kind of what an engine answers in a failure's place


def path(case: Case, one: Pass) -> Path:
    name = f"-{one.name}" if one.name else ""
    whole = not one.name and not one.like
    return case.folder / (f"expected{name}.yaml" if whole else f"changes{name}.yaml")


def with_evictor_names(document: Any) -> Any:
    """What was printed, with the files of the evictor by their names."""
    if isinstance(document, str):
        return _PROGRAM.get(document, document)
    if isinstance(document, dict):
        return {key: with_evictor_names(value) for key, value in document.items()}
    if isinstance(document, list):
        return [with_evictor_names(value) for value in document]
    return document


def unexpected_files(case: Case) -> list[Path]:
    """Files that look like goldens and belong to no pass."""
    goldens = {path(case, one) for one in case.passes}
    found = [*case.folder.glob("expected*.yaml"), *case.folder.glob("changes*.yaml")]
    return sorted(set(found) - goldens)


def expected(case: Case, one: Pass) -> list[Document]:
    """What a pass must print; raises InputError, ChangesError where its golden is none."""
    golden = path(case, one)
    if not golden.is_file():
        raise files.InputError(f"{golden.name} is missing: run `make goldens`")
    documents = files.parse(files.read_text(golden), f"{case.name}/{golden.name}")
    base = _base(case, one)
    return documents if base is None else changes.apply(expected(*base), documents)


def text(case: Case, one: Pass, documents: Sequence[Document]) -> str:
    """What the golden of a pass that prints these must say, byte for byte."""
    base = _base(case, one)
    if base is None:
        return emit.to_yaml(documents)
    other, before = base
    name = path(other, before).name if other is case else f"the case {other.name}"
    found = changes.between(expected(other, before), emit.canonical(documents))
    return f"# What differs from {name}.\n" + emit.to_yaml(found)


def _base(case: Case, one: Pass) -> tuple[Case, Pass] | None:
    """The pass that this one is told by; None for a pass that stands whole."""
    if one.like:
        other = cases.load(cases.CASES / one.like)
        if other.passes[0].like:
            raise files.InputError(f"{case.name} is like {one.like}, which is like another case")
        return other, other.passes[0]
    earlier = case.passes[: case.passes.index(one)]
    ran = (before for before in reversed(earlier) if not _failed(expected(case, before)))
    return (case, next(ran, earlier[-1])) if earlier else None


def _failed(documents: Sequence[Document]) -> bool:
    return any(document["kind"] == FAILURE for document in documents)
