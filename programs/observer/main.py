"""The observer of a tier: every few seconds it looks whether engines use the tier's cache.

Engines and the tier's own processes are found by DNS and read by HTTP; one ConfigMap is all that
is written, seldom. What is remembered is in memory: a restart begins with the counters' totals.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from .cluster import ACCOUNT, ConfigMap, Json, Refused, addresses, fetch
from .judge import MISSED, Memory, judge
from .pages import Page
from .report import ENOUGH, Engine, report, restored, share, text

SPACING = 60.0  # seconds between two writes, at least
RENEWAL = 1_800.0  # seconds between two looks at shares
FORGET = 300.0  # seconds after which an engine that is gone is forgotten
STUCK = 10  # rounds without progress after which the program counts as dead
READERS = 8  # with the largest pages they stay below the memory limit
SELDOM = 20  # rounds, of which a pod that does not answer is asked in the first few


def say(words: str) -> None:
    """Log one line."""
    print(words, file=sys.stderr, flush=True)


class Observer:
    """`config`: `interval` seconds; `engines`, `parts`: rows of namespace, host and ports;
    `pairs`: the tier moves blocks from prefill to decode engines."""

    def __init__(self, config: Json, config_map: ConfigMap) -> None:
        self.config = config
        self.map = config_map
        self.engines: dict[tuple[str, str], tuple[Engine, float]] = {}
        self.ports: dict[tuple[str, str], int] = {}
        self.document: Json = {}
        self.written: str | None = None  # None: not known
        self.wrote = self.renewed = -1e9
        self.base: dict[str, float] = {}
        self.shares: dict[str, str] = {}
        self.full: list[float] = []
        self.silent: dict[tuple[str, str], int] = {}
        self.places: set[tuple[str, str]] = set()
        self.writes: float | None = None
        self.finished = time.monotonic()
        self.problem = "starting"
        self._pool = ThreadPoolExecutor(READERS)

    def round(self, now: float) -> None:
        """Look once at everything, and write what has changed."""
        if self.written is None:
            self._begin(now)
        self.places.clear()
        grown = self._look_at_parts()
        self._look_at_engines(now, grown)
        self._renew_shares(now)
        self.ports = {place: self.ports[place] for place in self.places & self.ports.keys()}
        self.silent = {place: self.silent[place] for place in self.places}
        found = [engine for engine, _ in self.engines.values()]
        self.document = report(found, self.document, self.shares)
        self.finished = time.monotonic()
        self._publish(now)

    def _begin(self, now: float) -> None:
        """Read what was written last, so that a restart changes nothing without need."""
        try:
            self.written = self.map.read()
        except (OSError, Refused) as error:
            return self._tell(f"cannot read the ConfigMap: {error}")
        last = restored(self.written)
        if last and not self.document:
            self.document, self.wrote = last, now
            self.shares = {name: last[name] for name in ("hits", "used") if name in last}

    def _look_at_parts(self) -> bool | None:
        """Read the tier's own processes: whether they were written to; None: nobody counts."""
        pages = [page for _, page in self._pages(self.config.get("parts", ())) if page]
        self.full = [page.full for page in pages if page.full is not None]
        if not any(page.kind in ("LMCache", "Mooncake") for page in pages):
            return None
        before, self.writes = self.writes, sum(page.numbers.get("writes", 0.0) for page in pages)
        # A restarted part counts from nothing again.
        return self.writes > 0 if before is None else self.writes != before

    def _look_at_engines(self, now: float, grown: bool | None) -> None:
        """Judge every engine. A pod that never answered counts where no other of its namespace
        did: it may be the worker of an engine over several pods, which serves nothing."""
        pages = self._pages(self.config["engines"])
        speaks = {place[0] for place, page in pages if page is not None}
        speaks |= {place[0] for place, (engine, _) in self.engines.items() if engine.kind}
        for place, page in pages:
            known = self.engines.get(place)
            engine = known[0] if known else Engine(*place, "", "", Memory())
            if page is None and not engine.kind and place[0] in speaks:
                self.engines.pop(place, None)
                continue
            memory = judge(engine.memory, page, now, grown, bool(self.config.get("pairs")))
            said = page if page is not None and page.kind else engine
            kind, model = said.kind, said.model
            self.engines[place] = (Engine(*place, kind, model, memory), now)
        for place, (_, seen) in list(self.engines.items()):
            if now - seen > FORGET:
                del self.engines[place]

    def _pages(self, rows: list[Json]) -> list[tuple[tuple[str, str], Page | None]]:
        """Read the pages behind each row's name; ports are tried until one answers.

        A pod that does not answer is asked seldom: each try may take the whole patience.
        """
        places = {
            (row["namespace"], address): row["ports"]
            for row in rows
            for address in addresses(row["host"])
        }
        self.places |= places.keys()
        asked = [p for p in places if self.silent.get(p, 0) % SELDOM < MISSED]
        found = dict(zip(asked, self._pool.map(lambda p: self._page(p, places[p]), asked)))
        for place in places:
            answered = found.get(place) is not None
            self.silent[place] = 0 if answered else self.silent.get(place, 0) + 1
        return [(place, found.get(place)) for place in places]

    def _page(self, place: tuple[str, str], ports: list[int]) -> Page | None:
        """Return the first page with metrics that we know, or any page."""
        known, other = self.ports.get(place), None
        for port in sorted(ports, key=lambda port: port != known):
            page = fetch(place[1], port)
            if page is not None and page.kind:
                self.ports[place] = port
                return page
            other = other or page
        return other

    def _renew_shares(self, now: float) -> None:
        """Renew the shares seldom: hits of the prompts since the last time, and what is full."""
        total = {"prompt": 0.0, "hits": 0.0}
        for engine, _ in self.engines.values():
            for name, value in engine.memory.numbers:
                if name in total:
                    total[name] += value
        if total["prompt"] < self.base.get("prompt", 0.0):
            self.base = {}  # engines went or began anew
        if now - self.renewed < RENEWAL:
            return
        prompts = total["prompt"] - self.base.get("prompt", 0.0)
        if self.full:
            before = self.shares.get("used", "")
            self.shares["used"] = share(sum(self.full), len(self.full), before)
        if prompts < ENOUGH:
            return
        hits = max(0.0, total["hits"] - self.base.get("hits", 0.0))
        self.shares["hits"] = share(hits, prompts, self.shares.get("hits", ""))
        self.base, self.renewed = total, now

    def _publish(self, now: float) -> None:
        new = text(self.document)
        if self.written is None or new == self.written or now - self.wrote < SPACING:
            return None if self.written is None else self._tell("")
        try:
            self.map.write(new)
        except (OSError, Refused) as error:
            self.written = None
            return self._tell(f"cannot write the ConfigMap: {error}")
        self.written, self.wrote = new, now
        return self._tell("")

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            say(problem or "works")

    def ails(self) -> str:
        """What keeps the observer from its work, "" for nothing."""
        late = time.monotonic() - self.finished > 3 * self.config["interval"] + 30
        return "rounds take too long" if late else self.problem

    def hangs(self) -> str:
        """Why only a restart helps, "" while it does not."""
        late = time.monotonic() - self.finished > STUCK * self.config["interval"] + 60
        return "no round ends" if late else ""


def serve(port: int, observer: Observer) -> None:
    """Answer the probes: /healthz (it lives), /readyz (it sees and writes)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            checks = {"/healthz": observer.hangs, "/readyz": observer.ails}
            check = checks.get(self.path)
            problem = check() if check else "no such page"
            body = (problem or "ok").encode() + b"\n"
            self.send_response((503 if problem else 200) if check else 404)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

        def server_bind(self) -> None:
            if self.address_family == socket.AF_INET6:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            socketserver.TCPServer.server_bind(self)  # HTTPServer's asks the DNS for a name

    threading.Thread(target=Server(("", port), Handler).serve_forever, daemon=True).start()


def main(arguments: list[str]) -> int:
    """Observe until SIGTERM. The argument: `Observer`'s configuration, `namespace` and `name` of
    the ConfigMap, and the `port` of the probes."""
    config = json.loads(arguments[0])
    stop = threading.Event()
    # Process 1 ignores a signal that it has no handler for.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
    root = config.get("account", ACCOUNT)
    config_map = ConfigMap(config["namespace"], config["name"], host, port, root)
    observer = Observer(config, config_map)
    serve(config["port"], observer)
    while not stop.is_set():
        begun = time.monotonic()
        observer.round(begun)
        stop.wait(max(0.1, config["interval"] - (time.monotonic() - begun)))
    return 0
