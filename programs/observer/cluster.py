"""Find engines by DNS, read their pages, and write the one ConfigMap that is this program's own."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import ssl
import time
from typing import Any, cast

from .pages import LONGEST, MOST, Page, wanted

Json = dict[str, Any]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
PATIENCE = 5.0  # seconds for a page, and for a call of the API server
ANSWERS = 60.0  # seconds for a completion
MOST_ADDRESSES = 1_000  # of one name
HEAD = 32 * 1024  # bytes of an answer's head
_REQUEST = (
    "GET /metrics HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: text/plain\r\n"
    "Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
)


_COMPLETIONS = (
    "POST /v1/completions HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: application/json\r\n"
    "Content-Type: application/json\r\nContent-Length: {length}\r\n"
    "Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
)


class Refused(Exception):
    """The API server refused a call; its words."""


# What the DNS says of a name without addresses. Everything else is a DNS that does not answer.
_NOBODY = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


def addresses(host: str) -> list[str] | None:
    """Return the addresses behind a headless Service; [] without a ready pod, None if unknown."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return [] if error.errno in _NOBODY else None
    except (OSError, ValueError):
        return None
    return sorted({str(row[4][0]) for row in found})[:MOST_ADDRESSES]


class _Socket(io.RawIOBase):
    """Bytes of a socket until a deadline, and no more than `room` of them."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline, self.room = sock, deadline, HEAD

    def makefile(self, *_: Any) -> io.BufferedReader:
        """Return the file that http.client reads from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return True, as io.BufferedReader asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes. Raise TimeoutError after the deadline, and without room."""
        left = self._deadline - time.monotonic()
        if left <= 0 or self.room <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        size = self._sock.recv_into(memoryview(buffer)[: self.room])
        self.room -= size
        return size


def fetch(address: str, port: int) -> Page | None:
    """Return the page of metrics there; None where nobody answers, an empty one for an error.

    An answer ends at the deadline, its head at `HEAD` and its page at `LONGEST` bytes, of which
    `MOST` are kept, whatever else is sent; redirects are not followed.
    """
    deadline = time.monotonic() + PATIENCE
    try:
        with socket.create_connection((address, port), PATIENCE) as sock:
            sock.sendall(_REQUEST.format(host=_host(address), port=port).encode())
            reader = _Socket(sock, deadline)
            answer = http.client.HTTPResponse(cast(socket.socket, reader), method="GET")
            answer.begin()
            reader.room = LONGEST
            kept: list[bytes] = []
            rest, size = b"", 0
            while size + len(rest) < MOST:
                piece = answer.read1(65536)
                if not piece and answer.length:
                    return None  # it broke off: counters are missing
                lines = (rest + piece).split(b"\n")
                rest = lines.pop() if piece else b""
                found = wanted(lines)
                kept += found
                size += sum(map(len, found))
                if not piece:
                    text = b"\n".join(kept).decode("latin-1")  # a byte a character
                    return Page(text if answer.status == 200 else "")
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return None


def complete(address: str, port: int, body: bytes, longest: int) -> tuple[int, bytes]:
    """Return the status and the answer of a completion; 0 where nobody answers in time."""
    deadline = time.monotonic() + ANSWERS
    head = _COMPLETIONS.format(host=_host(address), port=port, length=len(body))
    try:
        with socket.create_connection((address, port), PATIENCE) as sock:
            sock.settimeout(ANSWERS)
            sock.sendall(head.encode() + body)
            reader = _Socket(sock, deadline)
            answer = http.client.HTTPResponse(cast(socket.socket, reader), method="POST")
            answer.begin()
            reader.room = longest
            return answer.status, answer.read(longest)
    except (OSError, http.client.HTTPException, ValueError):
        return 0, b""


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


class ConfigMap:
    """One ConfigMap, by the pod's service account; its key `state` is written."""

    def __init__(self, namespace: str, name: str, host: str, port: int, root: str = ACCOUNT):
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        self._host, self._port, self._root = host, port, root

    def read(self) -> str:
        """Return what is written. Raise OSError or Refused."""
        data = self._call("GET").get("data")
        state = data.get("state") if isinstance(data, dict) else None
        return state if isinstance(state, str) else ""

    def write(self, state: str) -> None:
        """Write it. Raise OSError or Refused."""
        self._call("PATCH", {"data": {"state": state}})

    def _call(self, method: str, body: Json | None = None) -> Json:
        with open(f"{self._root}/token", encoding="utf-8") as file:
            token = file.read().strip()  # it is renewed
        context = ssl.create_default_context(cafile=f"{self._root}/ca.crt")
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=PATIENCE, context=context
        )
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/merge-patch+json",
            "Accept": "application/json",
        }
        path = self._path + ("?fieldManager=kv-offload-observer" if body else "")
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            said = answer.read(MOST)
        except http.client.HTTPException as problem:
            raise OSError(str(problem)) from problem
        finally:
            connection.close()
        found: Json = {}
        with contextlib.suppress(ValueError):
            parsed = json.loads(said)
            found = parsed if isinstance(parsed, dict) else {}
        if answer.status >= 300:
            raise Refused(f"{answer.status}: {found.get('message', '')}"[:512])
        return found
