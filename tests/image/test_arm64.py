"""The image of the other architecture, built from the same steps and run by emulation (qemu)."""

import dataclasses
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1
from grpc_health.v1 import health_pb2

from tests.bench import requests
from tests.cluster.rig.ports import free_ports
from tests.image.container import Image
from tests.image.test_image import NAMES, channel, check, staged_source
from tools.release import image as building
from tools.release.image import tool

QEMU = "qemu-aarch64-static"
# Emulated it takes a minute to start on two busy cores.
START_SECONDS = 200


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The arm64 image, whose entrypoint an emulator runs."""
    emulator = shutil.which(QEMU)
    if not emulator and "CI" not in os.environ:
        pytest.skip(f"{QEMU} is missing: apt-get install qemu-user-static")
    assert emulator, QEMU
    assert platform.machine() == "x86_64"
    folder = tmp_path_factory.mktemp("arm64")
    source, epoch = staged_source(folder)
    building.build(source, folder / "arm64", "arm64", epoch, NAMES.labels)
    with building.registry(folder / "registry") as address:
        reference = f"{address}/function:arm64"
        tool("crane", "push", folder / "arm64" / "image.tar", reference)
        image = Image.pull(reference, folder / "root")
    shutil.copy(emulator, image.root / "qemu")
    yield dataclasses.replace(image, entrypoint=("/qemu", *image.entrypoint))


def test_arm64_serves_the_same_bytes(emulated: Image, certificates: Path, tmp_path: Path):
    port, metrics = free_ports(2)
    part = emulated.serving("arm64", certificates, port, metrics, tmp_path / "log")
    part.start()
    try:
        with channel(port, certificates) as open_channel:
            health = check(open_channel, wait_for_ready=True, timeout=START_SECONDS)
            assert health.status == health_pb2.HealthCheckResponse.SERVING
            stub = grpcv1.FunctionRunnerServiceStub(open_channel)
            for name, make in requests.CASES.items():
                if name != "100 wired workloads":  # the slowest, many times slower
                    request = make(0)
                    response = stub.RunFunction(request, timeout=START_SECONDS)
                    assert response == requests.answer(request), name
    finally:
        part.stop()
