"""The gRPC server: what the SDK's serves (v1, v1beta1, reflection), with health and metrics.

The SDK's own `runtime.serve` offers no health service, no place to add one, and parses every
request, so the server is assembled here from the SDK's parts.
"""

import asyncio
import gc
import signal
import sys
from pathlib import Path
from typing import Any, Protocol

import grpc
from crossplane.function import runtime
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1beta1 import run_function_pb2 as fnv1beta1
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import start_http_server

MIB = 1024 * 1024
# Seconds that calls under way have to end at SIGTERM; the container's own limit is 30.
_GRACE = 2.0
# Seconds after which a thread that computes lets another run: Python's own 5 ms make a quick call
# wait for it ten times in a row.
_SWITCH = 0.0005
# Python's collector stops all threads while it goes over all that is remembered, 0.2 s at times.
# Nearly everything here is freed without it.
_COLLECTED = (20_000, 10, 10)
_SERVICES = [
    module.DESCRIPTOR.services_by_name["FunctionRunnerService"].full_name
    for module in (fnv1, fnv1beta1)
]


class Certificates:
    """The certificates in a folder (tls.crt, tls.key, ca.crt), read at every handshake.

    Whoever rotates them replaces the files; connections that are open stay as they are.
    """

    def __init__(self, folder: Path) -> None:
        """Read them. Raise OSError."""
        self._folder = folder
        self._known = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials of a server whose clients need a certificate too."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._changed, require_client_authentication=True
        )

    def _changed(self) -> Any:
        """Return the configuration for a handshake, None where it is the one before.

        Files that are being written are read again at the next.
        """
        try:
            found = self._read()
            if found == self._known or found != self._read():
                return None
        except OSError:
            return None
        self._known = found
        return self._configuration()

    def _read(self) -> tuple[bytes, bytes, bytes]:
        key, certificate, authority = (
            (self._folder / name).read_bytes() for name in ("tls.key", "tls.crt", "ca.crt")
        )
        return key, certificate, authority

    def _configuration(self) -> Any:
        key, certificate, authority = self._known
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)


class Runner(Protocol):
    """What answers a serialised request."""

    async def run_serialized(
        self, wire: bytes, context: grpc.aio.ServicerContext[Any, Any]
    ) -> bytes:
        """Return a serialised response."""
        ...


def serve(
    runner: Runner,
    *,
    address: str,
    tls_certs_dir: str | None,
    insecure: bool,
    max_recv_message_size: int,
    max_send_message_size: int | None,
    metrics_port: int,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish the calls under way (at most 2 s).

    Sizes in MiB; `metrics_port` 0 turns the metrics off. Raises ValueError when there are neither
    certificates nor `insecure`, OSError when a port is taken or a certificate cannot be read.
    """
    credentials = None
    if not insecure:
        if tls_certs_dir is None:
            raise ValueError("give --tls-certs-dir (tls.crt, tls.key, ca.crt) or --insecure")
        credentials = Certificates(Path(tls_certs_dir)).credentials()
    options = [
        ("grpc.max_receive_message_length", max_recv_message_size * MIB),
        ("grpc.max_send_message_length", (max_send_message_size or max_recv_message_size) * MIB),
    ]
    if metrics_port:
        start_http_server(metrics_port)
    asyncio.run(_serve(runner, address, credentials, options))


async def _serve(
    runner: Runner,
    address: str,
    credentials: grpc.ServerCredentials | None,
    options: list[tuple[str, Any]],
) -> None:
    sys.setswitchinterval(_SWITCH)
    gc.freeze()
    gc.set_threshold(*_COLLECTED)
    server = grpc.aio.server(options=options)
    # Bytes in, bytes out: v1beta1 has the same fields as v1, and a known request is not parsed.
    run: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
        runner.run_serialized
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(name, {"RunFunction": run}) for name in _SERVICES]
    )
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection((*runtime.SERVICE_NAMES, health.SERVICE_NAME), server)
    if credentials is None:
        server.add_insecure_port(address)
    else:
        server.add_secure_port(address, credentials)

    async def stop() -> None:
        await healthy.enter_graceful_shutdown()
        await server.stop(grace=_GRACE)

    stopping: list[asyncio.Task[None]] = []  # a reference keeps the task from being collected
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sig, lambda: stopping.append(loop.create_task(stop())))
    await server.start()
    await healthy.set("", health_pb2.HealthCheckResponse.SERVING)
    try:
        await server.wait_for_termination()
    finally:
        await server.stop(grace=0)
