"""vLLM's simple connector: process memory, or a disk."""

from typing import Any

import pytest

from function.backends.native import BACKEND
from function.contract import gate
from function.contract.injection import Injection
from function.problems import Refused
from function.reasons import Reason
from tests.unit.backends.native import FILES, native, read, tier, vllm

GIB = 2**30
TP8 = {"--tensor-parallel-size": "8"}


def inject(native_spec: dict[str, Any], **facts: Any) -> Injection:
    found = BACKEND.inject(tier({"native": native_spec}), vllm(**facts))
    assert BACKEND.allows.problem(found) == ""
    return found


# (spec.native.cpu, flags, pods) -> (GiB of cpu_bytes_to_use, GiB that a pod is raised by)
SIZES: tuple[tuple[dict[str, Any], dict[str, str | None], int, int, int], ...] = (
    ({"sizeGiB": 64}, {}, 1, 64, 64),
    ({"sizeGiB": 64}, TP8, 1, 64, 64),
    ({"sizeGiBPerRank": 8}, TP8, 1, 64, 64),
    ({"sizeGiB": 64}, {"--data-parallel-size": "4"}, 1, 16, 64),
    ({"sizeGiBPerRank": 8}, {"--prefill-context-parallel-size": "2"}, 1, 16, 16),
    ({"sizeGiB": 64}, {"--data-parallel-size": "4", "--data-parallel-size-local": "2"}, 1, 32, 64),
    ({"sizeGiB": 64}, {"--data-parallel-size": "4", "--data-parallel-size-local": "1"}, 1, 64, 64),
    # vLLM's size is of the whole engine: over two pods it is twice that of one.
    ({"sizeGiB": 64}, {"--tensor-parallel-size": "16"}, 2, 128, 64),
    ({"sizeGiBPerRank": 8}, {"--tensor-parallel-size": "16"}, 2, 128, 64),
    ({"sizeGiB": 64}, {"--data-parallel-size": "4", "--tensor-parallel-size": "2"}, 2, 32, 64),
)


@pytest.mark.parametrize(("cpu", "flags", "pods", "told", "raised"), SIZES)
def test_memory_of_the_simple_connector(
    cpu: dict[str, Any], flags: dict[str, str | None], pods: int, told: int, raised: int
) -> None:
    cpu = {**cpu, "overheadPercent": 0}
    found = inject({"cpu": cpu, "simple": {}}, flags=flags, pods=pods)
    assert found.connector == {
        "kv_connector": "SimpleCPUOffloadConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": told * GIB},
    }
    assert found.memory_bytes == raised * GIB
    assert found.shm is None and found.env_if_absent == () and found.volumes == ()


def test_lazy_sets_lazy_offload() -> None:
    found = inject({"cpu": {"sizeGiB": 1}, "simple": {"lazy": True}}).connector
    assert found is not None and found["kv_connector_extra_config"]["lazy_offload"] is True


def test_disk_replaces_the_memory() -> None:
    found = inject({"simple": {"disk": {"sizeGiBPerRank": 100}}}, flags=TP8)
    assert found.connector is not None
    assert found.connector["kv_connector_extra_config"] == {
        "kv_offload_backend": "disk",
        "disk_path": "/mnt/kv-offload/disk/blocks",
        "disk_capacity_bytes": 100 * GIB,
    }
    volume = {"name": "kv-offload-disk", "emptyDir": {"sizeLimit": "840Gi"}}
    assert found.volumes == (volume,)
    assert found.mounts == ({"name": "kv-offload-disk", "mountPath": "/mnt/kv-offload/disk"},)
    assert found.memory_bytes == 0


def test_each_pod_gets_its_own_volume() -> None:
    disk = {"sizeGiBPerRank": 100, "storageClassName": "nvme"}
    (volume,) = inject({"simple": {"disk": disk}}, flags=TP8).volumes
    assert volume["ephemeral"]["volumeClaimTemplate"]["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "840Gi"}},
        "storageClassName": "nvme",
    }


def test_a_disk_needs_its_version() -> None:
    disk = {"simple": {"disk": {"sizeGiBPerRank": 1}}}
    with pytest.raises(Refused, match=r"needs vLLM 0\.28") as refused:
        inject(disk, version="0.27.0", features=frozenset({"lazy_offload"}))
    assert refused.value.reason == Reason.VERSION_MISMATCH
    with pytest.raises(Refused, match="an unknown version"):
        inject(disk, version=None, features=frozenset())


@pytest.mark.parametrize(
    "spec",
    (
        {"simple": {}},
        {"cpu": {"sizeGiB": 1}, "simple": {"disk": {"sizeGiBPerRank": 1}}},
        {"cpu": {"sizeGiB": 1}, "simple": {}, "secondary": [FILES]},
        {"cpu": {"sizeGiB": 1}, "simple": {}, "evictionPolicy": "ARC"},
        {"cpu": {"sizeGiB": 1}, "simple": {}, "blocksPerChunk": 16},
        {},
    ),
)
def test_conflicting_fields_are_refused(spec: dict[str, Any]) -> None:
    of, problems = read({"native": spec})
    assert of is None
    assert {p.path for p in problems} <= {"spec.native.cpu", "spec.native.simple"} and problems


def test_gate_question_names_the_simple_connector() -> None:
    of = tier({"native": {"cpu": {"sizeGiB": 1}, "simple": {}}})
    question = BACKEND.gate(of, vllm())
    assert question.connector == "SimpleCPUOffloadConnector"
    assert "kv_offload_backend" in gate.check(question).features
    assert BACKEND.describe(of).outlives_pods is False
    assert BACKEND.parts(of) == BACKEND.parts(native()) == []
