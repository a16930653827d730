"""Every example renders equally through both engines and is valid for Crossplane."""

from pathlib import Path

import pytest

from kv_offload.render import conditions, defaults, emit, files, store
from tests.render import engines, run, validate
from tests.render.case import Case, Pass
from tests.render.servers import ROOT

ONE = Pass("")


class Example(Case):
    """An example: one of our kinds, beside a folder `required`, which may hold the file itself."""

    def documents(self, part: str) -> list[files.Document]:
        own = store.key_of(self.xr)
        return [d for d in super().documents(part) if store.key_of(d) != own]

    def composite(self, one: Pass) -> files.Document:
        return self.xr

    def composition(self, one: Pass) -> files.Document:
        """The kind's own: one that stands beside it is of somebody else's kind."""
        return defaults.composition(self.xr)


def _examples() -> list[Example]:
    found = []
    for path in sorted((ROOT / "example").rglob("*.yaml")):
        documents = files.load(path)
        group, kind = documents[0]["apiVersion"].partition("/")[0], documents[0]["kind"]
        inside = path.parent.name == "required"
        if len(documents) == 1 and group == defaults.GROUP and not inside and kind in KINDS:  # type: ignore[attr-defined]
            found.append(Example(path.parent, documents[0], False, False, False, (ONE,)))
    return found


KINDS = ("KVOffloadTier", "InferenceCluster", "ModelDeployment")
EXAMPLES = _examples()


def _name(example: Example) -> str:
    where = Path(example.folder).relative_to(ROOT).as_posix()
    return f"{where}:{example.xr['metadata']['name']}"


each = pytest.mark.parametrize("example", EXAMPLES, ids=_name)


@each
def test_example_is_accepted(example: Example) -> None:
    ((_, answer),) = run.render(example, engines.embedded)
    assert not answer.failed
    said = {c["type"]: c for c in conditions.read(answer.xr)}
    for kind in {"Accepted", "ClusterResolved"} & set(said):
        assert said[kind]["status"] == "True", said[kind]


@each
def test_both_engines_render_the_example_equally(example: Example, crossplane: run.Engine) -> None:
    ours, theirs = (
        emit.to_yaml(answer.documents)
        for engine in (engines.embedded, crossplane)
        for _, answer in run.render(example, engine)
    )
    assert ours == theirs


@each
def test_rendered_example_is_valid(example: Example, validator: validate.Validator) -> None:
    ((one, answer),) = run.render(example, engines.embedded)
    assert validator.problems(validate.documents(example, one, answer)) == []
