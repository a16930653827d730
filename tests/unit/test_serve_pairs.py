"""The serving suite's rows, as far as they are seen without an engine: every part that a test kills
or stops is a pod of the tier's manifests."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.serve.pairs import GPU_PAIRS, PAIRS


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


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.long])
def test_every_part_of_a_long_row_is_a_pod_of_its_tier(name: str) -> None:
    pair, site = PAIRS[name], _Site()
    running = pair.run(site, pair.declared)  # type: ignore[arg-type]
    assert [running.container(part)["name"] for part in pair.parts] == list(pair.parts)  # type: ignore[index]
    assert len(set(site.services)) == len(pair.parts)


def test_rows_on_a_gpu_need_nothing_beyond_the_kit() -> None:
    assert "vllm-lmcache-redis" not in GPU_PAIRS
    assert "vllm-lmcache-disk" in GPU_PAIRS
