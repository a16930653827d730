"""The serving suite's rows, as far as they are seen without an engine: every part that a test kills
or stops is a pod of the tier's manifests."""

import ast
from types import SimpleNamespace
from typing import Any

import pytest

from tests.serve.pairs import GPU_PAIRS, PAIRS
from tests.serve.proofs import ROOT


class _Site:
    """Starts nothing, and keeps the templates that would have started."""

    def __init__(self) -> None:
        self.services: list[str] = []
        self.node = SimpleNamespace(config_maps={}, secrets={}, service=self._service)

    def _service(self, name: str, address: str) -> None:
        self.services.append(name)

    def stand_in(self, one: Any, template: Any) -> Any:
        return one.apply(template)

    def start(self, template: Any, *_: Any, **__: Any) -> Any:
        containers = {row["name"]: row for row in template["spec"]["containers"]}
        return SimpleNamespace(
            spec=template["spec"],
            containers=containers,
            address="10.0.0.1",
            wait_ready=lambda seconds: seconds,
        )


# The bucket is no pod of a tier's: it is the user's, and stands in for it here.
COMPOSED = [name for name in PAIRS if name != "vllm-native-bucket"]


@pytest.mark.parametrize("name", COMPOSED)
def test_every_pod_of_a_tier_is_a_part_that_is_killed_and_stopped(name: str) -> None:
    pair, site = PAIRS[name], _Site()
    running = pair.run(site, pair.declared)  # type: ignore[arg-type]
    assert [running.container(part)["name"] for part in pair.parts] == list(pair.parts)  # type: ignore[index]
    assert sorted(running.parts) == sorted(pair.parts)
    templates = [m for m in running.declared.manifests if "template" in m.get("spec", {})]
    assert len(templates) == len(pair.parts)


def test_what_is_killed_is_stopped_too() -> None:
    """The fixture `part` gives each part of each pair to both: neither chooses pairs."""
    for file, name in (
        ("test_50_faults.py", "test_every_request_is_answered"),
        ("test_55_hangs.py", "test_a_part_that_hangs_freezes_no_other_request"),
    ):
        tree = ast.parse((ROOT / "tests/serve" / file).read_text())
        (test,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
        assert "part" in {argument.arg for argument in test.args.args}
        assert not any("pairs" in ast.unparse(mark) for mark in test.decorator_list)


def test_rows_on_a_gpu_need_nothing_beyond_the_kit() -> None:
    assert "vllm-lmcache-redis" not in GPU_PAIRS
    assert "vllm-lmcache-disk" in GPU_PAIRS
