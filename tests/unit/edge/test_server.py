"""The server: concurrent calls during a long one, and shutdown."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from typing import Any

import crossplane.function.proto.v1.run_function_pb2_grpc as grpcv1
import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from grpc_health.v1 import health_pb2, health_pb2_grpc

from function import fn
from function.edge import server
from function.edge.answer import Answer

SERVING = health_pb2.HealthCheckResponse.SERVING
LIMIT = 30  # seconds; nothing here takes one


class Slow:
    """A composer that computes, once for the tag `slow`, until it is let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def __call__(self, call: Any, *_: Any) -> Answer:
        if call._req.meta.tag == "slow":
            self.begun.set()
            while not self.let_go.is_set():
                sum(range(1000))  # computing, not sleeping: nothing else is told to run
        return Answer()


@contextlib.asynccontextmanager
async def serving(runner: fn.FunctionRunner) -> AsyncIterator[grpc.aio.Channel]:
    # A socket in a folder: a port that was free a moment ago may be another suite's by now.
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        task = asyncio.create_task(server._serve(runner, address, None, []))
        async with grpc.aio.insecure_channel(address) as channel:
            await asyncio.wait_for(channel.channel_ready(), LIMIT)
            yield channel
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def request(tag: str) -> fnv1.RunFunctionRequest:
    """A call of a namespace of its own: calls of one namespace wait for each other."""
    asked = fnv1.RunFunctionRequest(meta=fnv1.RequestMeta(tag=tag))
    asked.observed.composite.resource.update({"metadata": {"namespace": tag}})
    return asked


async def test_long_call_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr(fn, "_CONSUMER", ("consumer", slow))
    async with serving(fn.FunctionRunner()) as channel:
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        long = asyncio.ensure_future(stub.RunFunction(request("slow")))
        await asyncio.to_thread(slow.begun.wait, LIMIT)
        try:
            health = health_pb2_grpc.HealthStub(channel)
            check = health_pb2.HealthCheckRequest()
            assert (await health.Check(check, timeout=LIMIT)).status == SERVING  # type: ignore[attr-defined]
            for tag in ("a", "b", "a"):
                answer = await stub.RunFunction(request(tag), timeout=LIMIT)
                assert answer.meta.tag == tag
            assert not long.done()
        finally:
            slow.let_go.set()
        assert (await asyncio.wait_for(long, LIMIT)).meta.tag == "slow"


def test_sigterm_stops_the_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "function.main", "--insecure", "--address", address]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(LIMIT)
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.wait()
