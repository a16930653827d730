"""What a release made of whole consumers, frozen: `releases/VERSION/NAME.yaml`.

    composite: {...}          # the consumer
    given: {...}              # the step's Input, if any
    desired: {KEY: {...}}     # what earlier steps desire: the workload, not wired
    others: [{...}]           # what requirements find: the tier, ready, and what else there is
    wired: {KEY: {...}}       # what the release desired then, Usages aside: as it runs since

Pods of that release run on clusters. No fixture is ever written anew; a release gets a folder of
its own, from the inputs of the one before, and may drop or add cases in it by hand:

    python -m tests.unit.composers.release 0.1 0.2
"""

import hashlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kv_offload.render import emit, files
from tests.unit.composers.calls import READY, Document, Outcome, call, observed

HERE = Path(__file__).with_name("releases")
_ROUNDS = 5  # as often as core asks for requirements


@dataclass(frozen=True)
class Fixture:
    """One consumer as a release left it."""

    version: str
    name: str
    composite: Document
    given: Document | None
    desired: dict[str, Document]
    others: list[Document]
    wired: dict[str, Document] = field(default_factory=dict)

    def reconciled(self, tier: str = "ready") -> Outcome:
        """The consumer again, its workloads observed as the release left them.

        `tier` is "ready", "not ready" or "gone".
        """
        seen = {key: observed(key, document) for key, document in self.wired.items()}
        changed = [_tier_is(tier, document) for document in self.others]
        return self._settled(seen, [document for document in changed if document])

    def created(self) -> dict[str, Document]:
        """What this function desires where nothing is observed, Usages aside."""
        desired = self._settled({}, self.others).desired
        return {key: value for key, value in desired.items() if value["kind"] != "Usage"}

    def _settled(self, seen: dict[str, Document], others: list[Document]) -> Outcome:
        required: dict[str, list[Document]] = {}
        for _ in range(_ROUNDS):
            got = call(
                self.composite,
                step_input=self.given,
                desired=self.desired,
                observed=seen,
                required=required,
            )
            if set(got.requirements) <= set(required):
                return got
            required = {
                name: [document for document in others if _selects(selector, document)]
                for name, selector in got.requirements.items()
            }
        raise AssertionError(f"{self.name}: requirements of which there is no end")


def _tier_is(state: str, document: Document) -> Document | None:
    if document["kind"] != "KVOffloadTier":
        return document
    if state == "gone":
        return None
    waiting = {"type": "Ready", "status": "False", "reason": "Creating"}
    conditions = [READY if state == "ready" else waiting]
    return {**document, "status": {**document["status"], "conditions": conditions}}


def _selects(selector: Document, document: Document) -> bool:
    metadata = document["metadata"]
    labels = metadata.get("labels", {})
    return (
        document["kind"] == selector["kind"]
        and selector.get("name", metadata["name"]) == metadata["name"]
        and selector.get("namespace", metadata.get("namespace")) == metadata.get("namespace")
        and all(labels.get(name) == value for name, value in selector.get("labels", {}).items())
    )


def load(path: Path) -> Fixture:
    (said,) = files.parse(files.read_text(path), path.name)
    parts = {"given": None} | said
    return Fixture(version=path.parent.name, name=path.stem, **parts)


def fixtures() -> list[Fixture]:
    return [load(path) for path in sorted(HERE.glob("*/*.yaml"))]


def digest(version: str) -> str:
    """Of all that a release left."""
    found = hashlib.sha256()
    for path in sorted((HERE / version).iterdir()):
        found.update(f"{path.name}\n".encode() + path.read_bytes())
    return found.hexdigest()


def freeze(before: Path, version: str) -> None:
    """Write what this function makes of the inputs in a folder; FileExistsError if it is there."""
    folder = HERE / version
    folder.mkdir(parents=True)
    for path in sorted(before.glob("*.yaml")):
        said: dict[str, Any] = files.parse(files.read_text(path), path.name)[0]
        text = emit.to_yaml([said | {"wired": load(path).created()}])
        (folder / path.name).write_text(text)


if __name__ == "__main__":
    freeze(HERE / sys.argv[1], sys.argv[2])
