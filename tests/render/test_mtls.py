"""The function over mutual TLS: Crossplane's render gets its answer so, and strangers get none."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1

from kv_offload.render.conditions import FIXED_TIME
from tests.cluster.rig.certs import Authority
from tests.render import bridge, case, engines, run, servers
from tests.tools import find


@dataclass(frozen=True)
class Served:
    """A function that serves over mutual TLS, and the folders of certificates."""

    target: str
    authority: Path
    client: Path
    stranger: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority.new()
    server = authority.issue(folder / "server", "function-kv-offload")
    client = authority.issue(folder / "client", "crossplane")
    stranger = Authority.new().issue(folder / "stranger", "crossplane")
    port = servers.free_port()
    command = ["-m", "function.main", "--tls-certs-dir", str(server), "--fixed-time", FIXED_TIME]
    with servers.serving([*command, "--address", f"127.0.0.1:{port}"], f"127.0.0.1:{port}"):
        yield Served(f"localhost:{port}", server / "ca.crt", client, stranger)


@pytest.mark.usefixtures("crossplane")  # skipped, or failed, like the other renders
def test_crossplane_renders_through_mutual_tls(served: Served) -> None:
    given = bridge.credentials(served.client, served.authority)
    tier = case.load(case.CASES / "tier/lmcache/smallest")
    cli, core = find.require("crossplane"), find.require(find.CORE)
    with bridge.to(served.target, given) as (address, forward):
        engine = engines.Crossplane(cli, core, {servers.OURS: address})
        assert run.check(tier, engine, "crossplane over mTLS", update=False) == []
    assert forward.calls == 2 * len(tier.passes)


@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_a_client_without_our_certificate_is_refused(served: Served, who: str) -> None:
    certificates = served.stranger if who == "stranger" else None
    given = bridge.credentials(certificates, served.authority)
    with grpc.secure_channel(served.target, given) as channel:
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            stub.RunFunction(fnv1.RunFunctionRequest(), timeout=5)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE


def test_plain_grpc_is_refused(served: Served) -> None:
    with grpc.insecure_channel(served.target) as channel:
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            stub.RunFunction(fnv1.RunFunctionRequest(), timeout=5)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
