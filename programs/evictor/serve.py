"""What the worker says of itself: /metrics, /healthz (it lives), /readyz (it can do its work)."""

from __future__ import annotations

import errno
import http.server
import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterable

from .directory import MEASURES, Directory

STUCK = 900.0  # seconds without progress after which the worker counts as dead


def metrics(directories: Iterable[Directory]) -> str:
    """Prometheus' text format."""
    directories = list(directories)
    lines: list[str] = []

    def add(name: str, kind: str, text: str, values: Iterable[tuple[str, float]]) -> None:
        lines.append(f"# HELP kv_evictor_{name} {text}")
        lines.append(f"# TYPE kv_evictor_{name} {kind}")
        lines.extend(f"kv_evictor_{name}{{{label}}} {value:.15g}" for label, value in values)

    def label(d: Directory, **more: str) -> str:
        named = {"directory": d.path, **more}
        return ",".join(f"{name}={json.dumps(value)}" for name, value in named.items())

    for name, (kind, text) in MEASURES.items():
        add(name, kind, text, [(label(d), d.counts[name]) for d in directories])
    limits = [
        (label(d, of=of), float(high))
        for d in directories
        for of, high in (("bytes", d.bytes), ("inodes", d.inodes))
        if high
    ]
    add("limit", "gauge", "What the directory may hold.", limits)
    holder = [(label(d, order=d.order), float(d.lease.held)) for d in directories]
    add("holder", "gauge", "1 for the worker that evicts; by what order.", holder)
    return "\n".join(lines) + "\n"


def hanging(directories: Iterable[Directory]) -> str:
    """Where the worker has made no progress for long, "" for nowhere: only a restart helps."""
    for d in directories:
        if d.lease.held and time.monotonic() - max(d.progress, d.due) > STUCK:
            return f"{d.path}: no progress for {STUCK:.0f} s"
    return ""


def ailing(directories: Iterable[Directory]) -> str:
    """What keeps the worker from its work, "" for nothing."""
    for d in directories:
        if d.ails:
            return f"{d.path}: {d.ails}"
    return hanging(directories)


def serve(port: int, directories: list[Directory]) -> None:
    """The pages, for everyone, IPv4 and IPv6. Raises OSError where the port is taken."""

    checks = {"/healthz": hanging, "/readyz": ailing}

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 30  # seconds for a request

        def do_GET(self) -> None:
            status, text = 200, ""
            if self.path == "/metrics":
                text = metrics(directories)
            elif self.path in checks:
                problem = checks[self.path](directories)
                status, text = (503 if problem else 200), (problem or "ok") + "\n"
            else:
                status = 404
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6
        daemon_threads = True

        def server_bind(self) -> None:
            if self.address_family == socket.AF_INET6:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            socketserver.TCPServer.server_bind(self)  # HTTPServer's asks the DNS for a name

    try:
        server = Server(("::", port), Handler)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        Server.address_family = socket.AF_INET  # a node without IPv6
        server = Server(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
