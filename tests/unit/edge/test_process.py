"""The server as its own process: certificates that rotate, clients that go, and SIGTERM."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import crossplane.function.proto.v1.run_function_pb2_grpc as grpcv1
import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from tests.cluster.rig.certs import Authority
from tests.unit.edge.test_neighbours import heavy

LIMIT = 60  # seconds; what takes longer is stuck
CALLS = 8


@contextlib.contextmanager
def server(*options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "function.main", "--address", address, *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process, address
    finally:
        process.kill()
        process.wait()


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until_computing(process: subprocess.Popen[bytes], seconds: float) -> None:
    begun, end = cpu(process), time.monotonic() + LIMIT
    while cpu(process) - begun < seconds and time.monotonic() < end:
        time.sleep(0.05)


def test_a_call_whose_client_has_gone_stops_computing() -> None:
    with server("--insecure") as (process, address), grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(LIMIT)
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        stub.RunFunction(heavy(-1), timeout=LIMIT)  # what is loaded once
        before = cpu(process)
        stub.RunFunction(heavy(-2), timeout=LIMIT)
        one = cpu(process) - before
        before = cpu(process)
        calls = [stub.RunFunction.future(heavy(number), timeout=LIMIT) for number in range(CALLS)]
        until_computing(process, one / 4)
        for call in calls:
            call.cancel()
        stub.RunFunction(heavy(-3), timeout=LIMIT)  # it waits for none of them
        time.sleep(2 * one)
        assert cpu(process) - before < (CALLS / 2 + 1) * one


def test_sigterm_waits_for_no_call_that_computes() -> None:
    with server("--insecure") as (process, address), grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(LIMIT)
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        before = cpu(process)
        stub.RunFunction(heavy(-1), timeout=LIMIT)
        one = cpu(process) - before
        calls = [stub.RunFunction.future(heavy(number), timeout=LIMIT) for number in range(40)]
        until_computing(process, one / 4)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
        # 2.4 s on a loaded machine; 12 s where the threads that compute are waited for.
        assert time.monotonic() - begun < 10
        assert not all(call.done() and call.exception() is None for call in calls)


def answers(address: str, authority: Path, own: Path) -> bool:
    """Whether the server takes a new connection with these certificates, and has one of theirs."""
    key, certificate = ((own / name).read_bytes() for name in ("tls.key", "tls.crt"))
    given = grpc.ssl_channel_credentials(authority.read_bytes(), key, certificate)
    target = address.replace("127.0.0.1", "localhost")
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(target, given, options) as channel:
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        try:
            asked = fnv1.RunFunctionRequest(meta=fnv1.RequestMeta(tag="x"))
            answer = stub.RunFunction(asked, timeout=LIMIT)
        except grpc.RpcError as refused:
            assert refused.code() == grpc.StatusCode.UNAVAILABLE
            return False
        return answer.meta.tag == "x"


@pytest.mark.parametrize("link", [False, True])
def test_rotated_certificates_are_used_at_the_next_handshake(tmp_path: Path, link: bool) -> None:
    old, new = Authority.new(), Authority.new()
    first = old.issue(tmp_path / "first", "function")
    then = new.issue(tmp_path / "then", "function")
    folder = tmp_path / "certificates"
    folder.symlink_to(first) if link else old.issue(folder, "function")
    clients = old.issue(tmp_path / "old", "crossplane"), new.issue(tmp_path / "new", "crossplane")
    with server("--tls-certs-dir", str(folder)) as (process, address):
        end = time.monotonic() + LIMIT
        while not answers(address, first / "ca.crt", clients[0]) and time.monotonic() < end:
            assert process.poll() is None
        assert not answers(address, then / "ca.crt", clients[1])
        if link:  # as the kubelet does: all files at once
            (tmp_path / "next").symlink_to(then)
            (tmp_path / "next").rename(folder)
        else:
            (folder / "tls.key").unlink()  # a file that is not there yet stops nobody
            assert answers(address, first / "ca.crt", clients[0])
            new.issue(folder, "function")
        assert answers(address, then / "ca.crt", clients[1])
        assert not answers(address, first / "ca.crt", clients[0])
