"""`make bench`: what a call costs, side by side with an empty function in the same run.

Every server is a process of its own on loopback gRPC; the client is one connection, one call at a
time. CPU per call and peak memory are the server's, from /proc. Figures vary with the machine: the
empty function beside them says how much of a figure is gRPC and Python themselves.
"""

import argparse
import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

import grpc
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1
from rich.console import Console
from rich.table import Table

from tests.bench import requests

_EMPTY, _OURS = "tests.bench.empty", "function.main"
_TICKS = os.sysconf("SC_CLK_TCK")
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
]


@dataclass(frozen=True)
class Figures:
    """Milliseconds per call (p50, p99, CPU of the server) and its peak resident MiB."""

    p50: float
    p99: float
    cpu: float
    peak: float


@dataclass
class Server:
    process: subprocess.Popen
    port: int
    started_ms: float
    started_cpu: float = 0.0  # seconds

    def cpu_seconds(self) -> float:
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_mib(self) -> float:
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(row for row in status if row.startswith("VmHWM"))
        return int(line.split()[1]) / 1024


@contextlib.contextmanager
def serving(module: str, bytecode: str) -> Iterator[Server]:
    """A server process; its cold start is from exec to the first accepted connection.

    `bytecode`: a folder of compiled modules; the image holds them too.
    """
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--insecure", "--address", f"127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=env | {"PYTHONPYCACHEPREFIX": bytecode},
    )
    try:
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.socket() as probe:
                probe.connect(("127.0.0.1", port))
                break
            if process.poll() is not None or time.perf_counter() - begun > 30:
                raise RuntimeError(f"{module} did not start")
            time.sleep(0.002)
        server = Server(process, port, (time.perf_counter() - begun) * 1000)
        server.started_cpu = server.cpu_seconds()
        yield server
    finally:
        process.terminate()
        process.wait(10)


async def call(server: Server, requests_: list[fnv1.RunFunctionRequest], calls: int) -> Figures:
    """`calls` calls, cycling through the requests (one: steady; many: cold each time)."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=_OPTIONS) as channel:
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        steady = len(requests_) == 1
        for request in requests_ * 50 if steady else []:
            await stub.RunFunction(request)
        cpu, times = server.cpu_seconds(), []
        for i in range(calls):
            request = requests_[i % len(requests_)]
            begun = time.perf_counter()
            response = await stub.RunFunction(request)
            times.append((time.perf_counter() - begun) * 1000)
            if any(r.severity == fnv1.SEVERITY_FATAL for r in response.results):
                raise RuntimeError(response.results[0].message)
        cpu = (server.cpu_seconds() - cpu) * 1000 / calls
    times.sort()
    return Figures(
        statistics.median(times), times[int(len(times) * 0.99) - 1], cpu, server.peak_mib()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="calls per steady row")
    calls = parser.parse_args().calls
    columns = ("case", "p50 ms", "p99 ms", "CPU ms/call", "of empty", "peak MiB")
    table = Table(*columns, title="RunFunction")
    with contextlib.ExitStack() as stack:
        bytecode = stack.enter_context(tempfile.TemporaryDirectory())
        for module in (_EMPTY, _OURS):  # compiles the modules
            with serving(module, bytecode):
                pass
        empty = stack.enter_context(serving(_EMPTY, bytecode))
        ours = stack.enter_context(serving(_OURS, bytecode))
        for name, build in requests.CASES.items():
            nothing = asyncio.run(call(empty, [build(0)], calls))
            _row(table, f"{name}: empty function", nothing, nothing)
            _row(table, f"{name}: steady", asyncio.run(call(ours, [build(0)], calls)), nothing)
            cold = [build(i + 1) for i in range(max(10, calls // (10 if nothing.cpu < 2 else 50)))]
            figures = asyncio.run(call(ours, cold, len(cold)))
            _row(table, f"{name}: cold (every call a new document)", figures, nothing)
            table.add_section()
        starts = (
            f"start, exec to listening: empty {empty.started_ms:.0f} ms"
            f" (CPU {empty.started_cpu:.2f} s), function {ours.started_ms:.0f} ms"
            f" (CPU {ours.started_cpu:.2f} s, {ours.started_cpu / empty.started_cpu:.2f}x)"
        )
    console = Console()
    console.print(table)
    console.print(starts)


def _row(table: Table, name: str, f: Figures, empty: Figures) -> None:
    ratio = f"{f.cpu / empty.cpu:.2f}x" if empty.cpu else ""
    table.add_row(name, f"{f.p50:.2f}", f"{f.p99:.2f}", f"{f.cpu:.2f}", ratio, f"{f.peak:.0f}")


if __name__ == "__main__":
    main()
