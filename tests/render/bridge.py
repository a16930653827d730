"""A bridge from plain gRPC to mutual TLS, so that `crossplane composition render` reaches the
function as a control plane does.

The render engine speaks only plain gRPC (core v2.4.0, `internal/render/runner.go`), a control plane
only mutual TLS. The bridge serves plain gRPC on loopback, and sends every request on over mutual
TLS, byte for byte: what Crossplane renders through it, the function answered over mutual TLS.
"""

import contextlib
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1


def credentials(certificates: Path | None, authority: Path) -> grpc.ChannelCredentials:
    """Client credentials from a folder with tls.crt and tls.key; None: no client certificate."""
    key = certificate = None
    if certificates is not None:
        key = (certificates / "tls.key").read_bytes()
        certificate = (certificates / "tls.crt").read_bytes()
    return grpc.ssl_channel_credentials(authority.read_bytes(), key, certificate)


class _Forward(grpcv1.FunctionRunnerServiceServicer):
    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = grpcv1.FunctionRunnerServiceStub(channel)
        self.lock = threading.Lock()
        self.calls = 0

    def RunFunction(
        self, request: fnv1.RunFunctionRequest, context: grpc.ServicerContext
    ) -> fnv1.RunFunctionResponse:
        with self.lock:
            self.calls += 1
        try:
            return self.stub.RunFunction(request, timeout=10)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details() or "")
            raise


@contextlib.contextmanager
def to(target: str, given: grpc.ChannelCredentials) -> Iterator[tuple[str, _Forward]]:
    """Serve the bridge to `target`; yields its address, and the forwarder that counts calls."""
    with grpc.secure_channel(target, given) as channel:
        forward = _Forward(channel)
        server = grpc.server(futures.ThreadPoolExecutor(4))
        grpcv1.add_FunctionRunnerServiceServicer_to_server(forward, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}", forward
        finally:
            server.stop(None)
