"""The observer of a tier: every few seconds it looks whether engines use the tier's cache.

Engines and the tier's own processes are found by DNS and read by HTTP; one ConfigMap is all that
is written, seldom. What is remembered is in memory: a restart begins with the counters' totals.
With a canary it also asks engines for completions, a few an hour unless some look wrong.
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
from dataclasses import replace
from typing import NoReturn

from .canary import LONGEST_ANSWER, TOKENS, TOP, parsed_answer
from .cluster import ACCOUNT, ConfigMap, Json, Refused, addresses, complete, fetch
from .judge import MISSED, WRONG_BLOCKS, Memory, judge
from .pages import UNASKED, Page
from .report import ENOUGH, Engine, report, restored, share, text, with_silent_pairs
from .turns import BEAT, Canary, Heard, Place, Request, Target

SPACING = 60.0  # seconds between two writes, at least
RENEWAL = 1_800.0  # seconds between two looks at shares
REREAD = 300.0  # seconds after which it looks whether another one wrote the ConfigMap
FORGET = 300.0  # seconds after which an engine that is gone is forgotten
STUCK = 10  # rounds without progress after which the program counts as dead
READERS = 8  # with the largest pages they stay below the memory limit
SELDOM = 20  # rounds, of which a pod that does not answer is asked in the first few
PARTS = {"LMCache", "Mooncake"}  # kinds of the tier's own processes that count writes
SLOW = 1.0  # seconds; who takes longer is asked last, as long as the interval lasts
ANSWERED = (200, 400)  # vLLM refuses with 400 to write NaN
LAG = 0.3  # seconds after an answer in which its counters reach the page


def say(words: str) -> None:
    """Log one line."""
    print(words, file=sys.stderr, flush=True)


def ask(request: Request) -> Heard:
    """Ask an engine for a few tokens with their log-probabilities, and read its counters around."""
    target = request.target
    address, port = target.place[1], target.port
    body: Json = {
        "model": target.model,
        "prompt": request.prompt,
        "max_tokens": TOKENS,
        "temperature": 0,
        "logprobs": TOP,
    }
    if request.salt:
        body["cache_salt"] = request.salt
    if target.kind == "SGLang":
        body["return_cached_tokens_details"] = True
    before = fetch(address, port)
    status, said = complete(address, port, json.dumps(body).encode(), LONGEST_ANSWER)
    answer = parsed_answer(said) if status in ANSWERED else None
    if answer is None:
        return Heard(None, status)
    time.sleep(LAG)
    after = fetch(address, port)
    if before is None or after is None:
        return Heard(answer)
    last = before.numbers
    grown = {name: value - last.get(name, 0.0) for name, value in after.numbers.items()}
    return Heard(answer, status, grown)


class Observer:
    """`config`: `interval` seconds; `engines`, `parts`: rows of namespace, host and ports;
    `pairs`: the tier moves blocks from prefill to decode engines; `hides_hits`: SGLang may count
    the tier's hits with those of the device; `canary`: seconds between two of its rounds, `every`,
    and the `tokens` of a prompt."""

    def __init__(self, config: Json, config_map: ConfigMap) -> None:
        self.config = config
        self.map = config_map
        self.engines: dict[Place, tuple[Engine, float]] = {}
        self.ports: dict[Place, int] = {}
        self.document: Json = {}
        self.written: str | None = None  # None: not known
        self.wrote = self.read = -1e9
        self.renewed = {"hits": -1e9, "used": -1e9}
        self.grown = {"prompt": 0.0, "hits": 0.0}
        self.shares: dict[str, str] = {}
        self.full: list[float] = []
        self.silent: dict[Place, int] = {}
        self.asked: dict[Place, float] = {}  # when it was asked last
        self.slow: set[Place] = set()
        self.known: dict[str, list[str]] = {}
        self.places: set[Place] = set()
        self.writes: dict[Place, float] = {}
        self.kinds: set[str] = set()  # of the tier's own processes
        self.sizes: dict[Place, float] = {}  # tokens that an engine's own cache holds
        self.last: dict[Place, Json] = {}  # rows of an observer before this one, by their model
        self.finished = time.monotonic()
        self.problem = "starting"
        self.unresolved = ""
        self._pool = ThreadPoolExecutor(READERS)
        self.canary: Canary | None = None
        if config.get("canary"):
            rare = config["canary"]
            self.canary = Canary(rare["every"], rare["tokens"], os.urandom(8).hex(), ask)
        self.canary_targets: tuple[list[Target], dict[Place, Place]] = [], {}
        self.metrics = ""

    def wait(self, until: float) -> None:
        """Wait for the next look; meanwhile the canary's round goes on."""
        beat = self.config["interval"] if self.canary is None else BEAT
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(beat, left))
            if self.canary is not None:
                self.canary.step(time.monotonic(), *self.canary_targets)

    def round(self, now: float) -> None:
        """Look once at everything, and write what has changed."""
        begun = time.monotonic()
        if self.written is None or now - self.read >= REREAD:
            self._begin(now)
        self.places.clear()
        self.unresolved = ""
        grown = self._look_at_parts()
        self._look_at_engines(now, grown)
        self._renew_shares(now)
        for place in self.asked.keys() - self.places:
            for kept in (self.ports, self.silent, self.asked, self.writes, self.sizes):
                kept.pop(place, None)
            self.slow.discard(place)
        found = [engine for engine, _ in self.engines.values()]
        if self.config.get("pairs"):
            found = with_silent_pairs(found)
        if self.canary is not None:
            passed = time.monotonic() - begun
            found = self._with_canary(self.canary, found, now + passed)
        self.document = report(found, self.document, self.shares)
        self.finished = time.monotonic()
        self._publish(now)

    def _with_canary(self, canary: Canary, found: list[Engine], now: float) -> list[Engine]:
        """Let the canary go on, and return the engines with what it says of them."""
        targets, silent = [], {}
        for engine in found:
            place = engine.namespace, engine.address
            numbers, port = dict(engine.memory.numbers), self.ports.get(place)
            if engine.model and port and place in self.places and not self.silent.get(place):
                prompted = numbers.get("prompt", 0.0)
                computed = prompted - numbers.get("device", 0.0)
                size, of = self.sizes.get(place, 0.0), (engine.kind, engine.model)
                targets.append(Target(place, port, *of, prompted, computed, size))
            else:
                silent[place] = engine.namespace, engine.model
        self.canary_targets = targets, silent
        canary.step(now, targets, silent)
        wrong = Memory(state=WRONG_BLOCKS)
        said, known = [], set()
        for engine in found:
            place, group = (engine.namespace, engine.address), (engine.namespace, engine.model)
            known.add((place, group))
            memory = wrong if canary.is_accused(place, group) else engine.memory
            word = canary.word(group) if engine.model else ""
            said.append(replace(engine, memory=memory, canary=word))
        rows: dict[Place, int] = {}
        for place, accused in canary.accused.items():
            rows[accused.group] = rows.get(accused.group, 0) + 1
            if (place, accused.group) not in known:
                word = canary.word(accused.group)
                said.append(Engine(*place, accused.kind, accused.group[1], wrong, word))
        self.metrics = "# TYPE kv_offload_wrong_blocks gauge\n" + "".join(
            f'kv_offload_wrong_blocks{{model_namespace="{namespace}",model="{model}"}} {number}\n'
            for (namespace, model), number in sorted(rows.items())
        )
        return said

    def _begin(self, now: float) -> None:
        """Read what is written: a restart changes nothing without need, and nobody else does."""
        try:
            self.written, self.read = self.map.read(), now
        except (OSError, Refused) as error:
            self.written = None
            return self._tell(f"cannot read the ConfigMap: {error}")
        last = restored(self.written)
        if last and not self.document:
            self.document, self.wrote = last, now
            self.shares = {name: last[name] for name in ("hits", "used") if name in last}
            self.last = {(row["namespace"], row["model"]): row for row in last["models"]}
            if self.canary is not None:
                self.canary.restore(last["models"], WRONG_BLOCKS)
            self.renewed = dict.fromkeys(self.renewed, now)

    def _look_at_parts(self) -> bool | None:
        """Read the tier's own processes: whether they were written to; None: nobody counts."""
        found = self._pages(self.config.get("parts", ()))
        pages = [(place, page) for place, page in found if page and page is not UNASKED]
        self.full = [page.full for _, page in pages if page.full is not None]
        counted = {p: page.numbers.get("writes", 0.0) for p, page in pages if page.kind in PARTS}
        self.kinds |= {page.kind for _, page in pages}
        # A restarted part counts from nothing again; one that was not read has written nothing.
        grown = any(value != self.writes.get(place, 0.0) for place, value in counted.items())
        self.writes |= counted
        return grown if self.kinds & PARTS else None

    def _look_at_engines(self, now: float, grown: bool | None) -> None:
        """Judge every engine. A pod that never answered counts where no other of its namespace
        did: it may be the worker of an engine over several pods, which serves nothing."""
        pages = self._pages(self.config["engines"])
        speaks = {place[0] for place, page in pages if page and page is not UNASKED}
        speaks |= {place[0] for place, (engine, _) in self.engines.items() if engine.kind}
        for place, page in pages:
            known = self.engines.get(place)
            engine = known[0] if known else Engine(*place, "", "", Memory())
            if page in (None, UNASKED) and not engine.kind and place[0] in speaks:
                self.engines.pop(place, None)
                continue
            memory, said = engine.memory, engine
            if page is not UNASKED:
                if page is not None and page.kind:
                    said = Engine(*place, page.kind, page.model, memory)
                    self.sizes[place] = page.device_tokens
                begin = memory if memory.numbers else self._resumed(said)
                pairs, hides = bool(self.config.get("pairs")), bool(self.config.get("hides_hits"))
                memory = judge(begin, page, now, grown, pairs, hides)
                self._add(engine.memory, memory)
            elif known is None:
                continue
            self.engines[place] = (Engine(*place, said.kind, said.model, memory), now)
        for place, (_, seen) in list(self.engines.items()):
            if now - seen > FORGET:
                del self.engines[place]
        if pages and not self.unresolved:
            self.last = {}

    def _resumed(self, engine: Engine) -> Memory:
        """Return an engine's memory before its first page: what the last document says of it."""
        row = self.last.get((engine.namespace, engine.model))
        if row is None or not engine.kind or row.get("state") == WRONG_BLOCKS:
            return engine.memory
        state, cause = row.get("state", ""), row.get("cause", "")
        return replace(engine.memory, state=state, cause=cause, restored=True)

    def _pages(self, rows: list[Json]) -> list[tuple[Place, Page | None]]:
        """Read the pages behind each row's name; ports are tried until one answers.

        A pod that does not answer is asked seldom, and who is slow after all others, until the
        interval is over: pods with the label may be anybody's, and each may take the whole
        patience. `UNASKED`: nothing new is known.
        """
        places = {
            (row["namespace"], address): row["ports"]
            for row, found in zip(rows, self._pool.map(self._addresses, rows))
            for address in found
        }
        self.places |= places.keys()
        until = time.monotonic() + self.config["interval"]
        asked = [p for p in places if self.silent.get(p, 0) % SELDOM < MISSED]
        asked.sort(key=lambda place: (self._turn(place), self.asked.get(place, 0.0)))

        def page(place: Place) -> Page | None:
            begun = time.monotonic()
            if begun >= until:
                return UNASKED
            self.asked[place] = begun
            found = self._page(place, places[place])
            is_slow = time.monotonic() - begun >= SLOW
            (self.slow.add if is_slow else self.slow.discard)(place)
            return found

        found = dict(zip(asked, self._pool.map(page, asked)))
        for place in places:
            if found.get(place) is not UNASKED:
                answered = found.get(place) is not None
                self.silent[place] = 0 if answered else self.silent.get(place, 0) + 1
        return [(place, found.get(place)) for place in places]

    def _turn(self, place: Place) -> int:
        """Return when in a round a place is asked: engines that answer first, slow ones last."""
        if place not in self.asked:
            return 2
        if 0 < self.silent.get(place, 0) < MISSED:
            return 1  # soon it is known to be silent
        return 3 if place in self.slow else 0

    def _addresses(self, row: Json) -> list[str]:
        """Return a row's addresses; the last ones while the DNS does not answer."""
        found = addresses(row["host"])
        if found is None:
            self.unresolved = f"cannot resolve {row['host']}"
            return self.known.get(row["host"], [])
        self.known[row["host"]] = found
        return found

    def _page(self, place: Place, ports: list[int]) -> Page | None:
        """Return the first page with metrics that we know, or any page."""
        known, other = self.ports.get(place), None
        for port in sorted(ports, key=lambda port: port != known):
            page = fetch(place[1], port)
            if page is not None and page.kind:
                self.ports[place] = port
                return page
            other = other or page
        return other

    def _add(self, before: Memory, memory: Memory) -> None:
        """Add what an engine's prompts and hits grew by; what was before the first look is old."""
        last, numbers = dict(before.numbers), dict(memory.numbers)
        if not last and "hits" in self.shares:
            return
        for name in self.grown:
            value = numbers.get(name, 0.0)
            grown = value - last.get(name, 0.0)
            self.grown[name] += grown if grown >= 0 else value

    def _renew_shares(self, now: float) -> None:
        """Renew the shares seldom: hits of the prompts since the last time, and what is full."""

        def renew(name: str, part: float, whole: float) -> None:
            self.shares[name] = share(part, whole, self.shares.get(name, ""))
            self.renewed[name] = now

        is_due = {name: now - last >= RENEWAL for name, last in self.renewed.items()}
        if is_due["used"] and self.full:
            renew("used", sum(self.full), len(self.full))
        elif is_due["used"]:
            self.shares.pop("used", None)
        if is_due["hits"] and self.grown["prompt"] >= ENOUGH:
            renew("hits", self.grown["hits"], self.grown["prompt"])
            self.grown = dict.fromkeys(self.grown, 0.0)

    def _publish(self, now: float) -> None:
        new = text(self.document)
        if self.written is None:
            return None
        if new == self.written or now - self.wrote < SPACING:
            return self._tell(self.unresolved)
        try:
            self.map.write(new)
        except (OSError, Refused) as error:
            self.written = None
            return self._tell(f"cannot write the ConfigMap: {error}")
        self.written, self.wrote = new, now
        return self._tell(self.unresolved)

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            say(problem or "works")

    def ails(self) -> str:
        """What keeps the observer from its work, "" for nothing."""
        late = time.monotonic() - self.finished > 3 * self.config["interval"] + 90
        return "rounds take too long" if late else self.problem

    def hangs(self) -> str:
        """Why only a restart helps, "" while it does not."""
        late = time.monotonic() - self.finished > STUCK * self.config["interval"] + 60
        return "no round ends" if late else ""


def serve(port: int, observer: Observer) -> None:
    """Answer the probes: /healthz (it lives), /readyz (it sees and writes); and /metrics."""

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            checks = {"/healthz": observer.hangs, "/readyz": observer.ails}
            if self.path == "/metrics":
                checks[self.path] = str  # nothing is wrong
            check = checks.get(self.path)
            problem = check() if check else "no such page"
            body = (problem or "ok").encode() + b"\n"
            if self.path == "/metrics":
                body = observer.metrics.encode()
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


def main(arguments: list[str]) -> NoReturn:
    """Observe until SIGTERM. The argument: `Observer`'s configuration, `namespace` and `name` of
    the ConfigMap, and the `port` of the probes."""
    config = json.loads(arguments[0])
    # Process 1 ignores a signal that it has no handler for. Nothing is left to do: a handler that
    # sets an event may wait for its lock for ever, and a round waits for slow engines.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
    root = config.get("account", ACCOUNT)
    config_map = ConfigMap(config["namespace"], config["name"], host, port, root)
    observer = Observer(config, config_map)
    serve(config["port"], observer)
    while True:
        begun = time.monotonic()
        observer.round(begun)
        observer.wait(max(begun + config["interval"], time.monotonic() + 0.1))
