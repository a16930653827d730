"""What is wrong with a tier: by its schema, and by what only the backend knows."""

from typing import Any

import pytest

from function.backends.nixl import BACKEND
from tests.unit.backends.nixl import nixl, read

# (spec.nixl, paths of the problems)
SCHEMA: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({"backend": "GDS"}, ["spec.nixl.backend"]),
    ({"backend": "ucx"}, ["spec.nixl.backend"]),
    ({"transfer": "Both"}, ["spec.nixl.transfer"]),
    ({"sideChannelPort": 80}, ["spec.nixl.sideChannelPort"]),
    ({"sideChannelPort": "5600"}, ["spec.nixl.sideChannelPort"]),
    ({"ports": {"count": 4}}, ["spec.nixl.ports.count"]),
    ({"leaseSeconds": 0}, ["spec.nixl.leaseSeconds"]),
    ({"failurePolicy": "fail"}, ["spec.nixl.failurePolicy"]),
    ({"telemetry": {"port": 20000}}, ["spec.nixl.telemetry"]),
)


@pytest.mark.parametrize(("settings", "paths"), SCHEMA)
def test_schema_problems(settings: dict[str, Any], paths: list[str]) -> None:
    tier, problems = read({"nixl": settings})
    assert tier is None
    assert [problem.path for problem in problems] == paths


def test_storage_fields_belong_to_other_backends() -> None:
    _, (problem,) = read({"nixl": {"storage": [{"type": "POSIX"}]}})
    assert problem.path == "spec.nixl.storage"
    assert "a Native tier's secondary[] of type Bucket" in problem.message
    assert "a HiCache tier's storage of type NIXL" in problem.message


PLUGIN: dict[str, Any] = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}
DRA: dict[str, Any] = {"source": "DRA", "dra": {"deviceClassName": "dranet.net"}}
# (spec.rdma, spec.nixl) -> what is said
KNOWN: tuple[tuple[dict[str, Any] | None, dict[str, Any], list[str]], ...] = (
    (None, {}, []),
    (PLUGIN, {}, []),
    ({**PLUGIN, "devices": ["mlx5_0"]}, {}, []),
    (DRA, {"rdmaClaimTemplateName": "nic"}, []),
    (
        PLUGIN,
        {"rdmaClaimTemplateName": "nic"},
        ["spec.nixl.rdmaClaimTemplateName: may only be set with spec.rdma.source DRA"],
    ),
    (
        {**PLUGIN, "devices": ["efa0"]},
        {"backend": "LIBFABRIC"},
        ["spec.rdma.devices: may only be set with spec.nixl.backend UCX"],
    ),
)


@pytest.mark.parametrize(("rdma", "settings", "said"), KNOWN)
def test_backend_problems(
    rdma: dict[str, Any] | None, settings: dict[str, Any], said: list[str]
) -> None:
    tier = nixl({"rdma": rdma} if rdma else {}, **settings)
    assert [str(problem) for problem in BACKEND.problems(tier)] == said


# (spec.rdma, spec.nixl) -> beginnings of the warnings
WARNED: tuple[tuple[dict[str, Any] | None, dict[str, Any], list[str]], ...] = (
    (None, {}, ["spec.rdma.source is None"]),
    (None, {"backend": "LIBFABRIC"}, ["spec.rdma.source is None", "RDMA is not yet tested"]),
    (DRA, {}, ["spec.nixl.rdmaClaimTemplateName is not set", "RDMA is not yet tested"]),
    (PLUGIN, {"transfer": "Push"}, ["RDMA is not yet tested", "NixlPushConnector"]),
)


@pytest.mark.parametrize(("rdma", "settings", "said"), WARNED)
def test_warnings_of_describe(
    rdma: dict[str, Any] | None, settings: dict[str, Any], said: list[str]
) -> None:
    warnings = BACKEND.describe(nixl({"rdma": rdma} if rdma else {}, **settings)).warnings
    assert [w for w, beginning in zip(warnings, said, strict=True) if w.startswith(beginning)] == [
        *warnings
    ]
