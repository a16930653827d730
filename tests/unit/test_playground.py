"""`make cluster` starts the fleet that the examples are written for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.cluster.rig import __main__ as playground
from tests.cluster.rig.crossplane import FLEET_FLAGS

ROOT = Path(__file__).parents[2]


class Rig:
    """What is asked of a rig; it ends as soon as it is up."""

    asked: dict[str, Any] = {}

    def __init__(self, run: Path, workloads: tuple[str, ...], **more: Any) -> None:
        type(self).asked = {"workloads": workloads, **more}

    def __enter__(self) -> Self:
        raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None: ...


def named(node: Any) -> Iterator[str]:
    """The clusters that a document names."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "inferenceClusterRef":
                yield value["name"]
            yield from named(value)
    elif isinstance(node, list):
        for each in node:
            yield from named(each)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    monkeypatch.setattr(playground, "Rig", Rig)
    monkeypatch.setattr(playground.signal, "signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["rig", "up", "--run", str(tmp_path)])
    assert playground.main() == 0
    return Rig.asked


def test_playground_starts_core_as_the_install_page_says(asked: dict[str, Any]) -> None:
    """With core's own burst four tiers at once open the breaker."""
    assert asked["core_flags"] == FLEET_FLAGS


def test_examples_name_clusters_of_the_playground(asked: dict[str, Any]) -> None:
    files = [*(ROOT / "example").rglob("*.yaml"), *(ROOT / "tests/cluster/demo").glob("*.yaml")]
    found = {
        name: file
        for file in files
        for document in yaml.safe_load_all(file.read_text())
        for name in named(document)
    }
    assert found and set(found) <= set(asked["workloads"]), found
