"""The gRPC server: what the SDK's serves (v1, v1beta1, reflection), with health and metrics.

The SDK's own `runtime.serve` offers no health service, no place to add one, and parses every
request, so the server is assembled here from the SDK's parts.
"""

import asyncio
import signal
import sys
from typing import Any, Protocol

import grpc
from crossplane.function import runtime
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1beta1 import run_function_pb2 as fnv1beta1
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import start_http_server

MIB = 1024 * 1024
# Seconds after which a thread that computes lets another run: Python's own 5 ms make a quick call
# wait for it ten times in a row.
_SWITCH = 0.0005
_SERVICES = [
    module.DESCRIPTOR.services_by_name["FunctionRunnerService"].full_name
    for module in (fnv1, fnv1beta1)
]


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
    """Serve until SIGTERM or SIGINT, then finish the calls under way (at most 5 s).

    Sizes in MiB; `metrics_port` 0 turns the metrics off. Raises ValueError when there are neither
    certificates nor `insecure`, OSError when a port is taken or a certificate cannot be read.
    """
    credentials = None
    if not insecure:
        if tls_certs_dir is None:
            raise ValueError("give --tls-certs-dir (tls.crt, tls.key, ca.crt) or --insecure")
        credentials = runtime.load_credentials(tls_certs_dir)
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
        await server.stop(grace=runtime.SHUTDOWN_GRACE_PERIOD_SECONDS)

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
