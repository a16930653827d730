"""A pod with the tier's label may answer what it likes: each answer ends in time and in memory."""

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from programs.observer import cluster
from tests.unit.programs.observer import vllm

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@contextlib.contextmanager
def server(start: bytes, again: bytes = b"", pause: float = 0.0) -> Iterator[int]:
    """A server that sends `start`, and then `again` for ever."""

    def answer() -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(4096)
            connection.sendall(start)
            for _ in itertools.count() if again else ():
                time.sleep(pause)
                connection.sendall(again)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("start", "again", "pause"),
    [
        (OK + b"X: ", b"a", 0.05),
        (CHUNKED + b"5;", b"a", 0.05),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.0),
        (OK, b"X: " + b"a" * 60_000 + b"\r\n", 0.0),
        (OK + b"\r\n", b"a" * 65536, 0.0),
        (OK + b"\r\n", b"a\n" * 32768, 0.0),
        (OK + b"\r\n", b"vllm:prompt_tokens_total 1\n" * 2_000, 0.0),
    ],
    ids=[
        *("slow head", "slow chunk", "interim answers", "large head", "large line"),
        *("endless lines", "endless counters"),
    ],
)
def test_an_answer_without_end_ends(
    monkeypatch: pytest.MonkeyPatch, start: bytes, again: bytes, pause: float
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    found = []
    with server(start, again, pause) as port:
        reader = threading.Thread(
            target=lambda: found.append(cluster.fetch("127.0.0.1", port)), daemon=True
        )
        reader.start()
        reader.join(3)
        assert not reader.is_alive()
    assert found == [None]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_page_is_read(chunked: bool) -> None:
    page = vllm(prompt=7).encode()
    whole = OK + b"\r\n" + page
    if chunked:
        whole = CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(page), page)
    with server(whole) as port:
        found = cluster.fetch("127.0.0.1", port)
    assert found is not None
    assert found.numbers["prompt"] == 7


def test_a_page_of_many_ranks_is_read() -> None:
    """A head node's page has the histograms of every rank of its engine."""
    ranks = 64
    rows = [
        f'vllm:e2e_request_latency_seconds_bucket{{engine="{n}",le="{i}",model_name="m"}} 5\n'
        for n in range(ranks)
        for i in range(2_000)
    ]
    counted = [f'vllm:prompt_tokens_total{{engine="{n}"}} 5\n' for n in range(ranks)]
    page = "".join([*rows, *counted]).encode()
    assert len(page) > 8 * 2**20
    with server(OK + b"Content-Length: %d\r\n\r\n%s" % (len(page), page)) as port:
        found = cluster.fetch("127.0.0.1", port)
    assert found is not None
    assert found.numbers == {"prompt": 5 * ranks}


@pytest.mark.parametrize("last", ["vllm:prompt_tokens_total 7", "vllm:num_requests_running 7"])
def test_a_page_needs_no_line_end_and_no_counter(last: str) -> None:
    with server(OK + b"\r\n" + last.encode()) as port:
        found = cluster.fetch("127.0.0.1", port)
    assert found is not None
    assert found.kind == "vLLM"
    assert bool(found.numbers) == ("prompt" in last)


@pytest.mark.parametrize("head", [OK + b"Content-Length: 9000\r\n\r\n", CHUNKED + b"2328\r\n"])
def test_a_page_that_breaks_off_is_none(head: bytes) -> None:
    with server(head + vllm(prompt=7).encode()) as port:
        assert cluster.fetch("127.0.0.1", port) is None


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (socket.gaierror(socket.EAI_NONAME, "no such name"), []),
        (socket.gaierror(socket.EAI_AGAIN, "time-out"), None),
        (socket.gaierror(socket.EAI_FAIL, "refused"), None),
        (UnicodeError("label too long"), None),
    ],
)
def test_a_dns_that_does_not_answer_is_told_from_a_service_without_pods(
    monkeypatch: pytest.MonkeyPatch, error: Exception, found: list | None
) -> None:
    def getaddrinfo(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert cluster.addresses("engines") == found


@pytest.mark.parametrize(
    ("start", "again", "pause"),
    [(OK + b"X: ", b"a", 0.05), (CHUNKED + b"5;", b"a", 0.05), (OK + b"\r\n", b"a" * 65536, 0.0)],
    ids=["slow head", "slow chunk", "endless"],
)
def test_a_completion_without_end_ends(
    monkeypatch: pytest.MonkeyPatch, start: bytes, again: bytes, pause: float
) -> None:
    monkeypatch.setattr(cluster, "ANSWERS", 0.5)
    begun = time.monotonic()
    with server(start, again, pause) as port:
        status, body = cluster.complete("127.0.0.1", port, b"{}", 1_000)
    assert status in (0, 200) and len(body) <= 1_000
    assert time.monotonic() - begun < 3


def test_nobody_completes() -> None:
    assert cluster.complete("127.0.0.1", 9, b"{}", 1_000) == (0, b"")
