"""An engine that serves, and what it says: texts, log-probabilities, and where tokens came from."""

import http.client
import itertools
import json
import random
import re
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.pod import Pod
from tests.serve.author import PORT, SERVED

TOKENS = 24  # what a request generates, where it does not say
_ROOMS = itertools.count(1)  # numbers of SGLang's requests from prefill to decode
# What a router asks vLLM's prefill with.
HAND_OVER = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


def prompt(seed: int, length: int = 3000) -> str:
    """`length` characters, which are as many tokens; the same for a seed everywhere."""
    draw = random.Random(seed)
    return "".join(draw.choice("abcdefghij klmnop") for _ in range(length))


@dataclass(frozen=True)
class Answer:
    """Two are equal that say the same with the same confidence, to the last digit.

    `cached`: prompt tokens that were not computed, wherever they came from.
    """

    text: str
    logprobs: tuple[float, ...]
    prompt_tokens: int
    cached: int = field(compare=False)
    seconds: float = field(compare=False)
    parameters: Mapping[str, Any] | None = field(default=None, compare=False)

    def alike(self, other: "Answer") -> bool:
        """Whether both say the same, but for rounding: the prompt may have been cut otherwise."""
        near = zip(self.logprobs, other.logprobs, strict=True)
        return self.text == other.text and all(abs(a - b) < 0.1 for a, b in near)


class Engine:
    """`pod` is the engine's; it need not be ready yet."""

    # What its events call the device, and memory of the host.
    media = ("GPU", "CPU")
    external_metric = "vllm:external_prefix_cache_hits_total"
    sources_metric = "vllm:prompt_tokens_cached_by_source_total"

    def __init__(self, pod: Pod):
        self.pod = pod
        self.url = f"http://{pod.address}:{PORT}"

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def log(self) -> str:
        return self.pod.containers["engine"].log

    def wait(self, timeout: float = 600) -> float:
        """Seconds until it was ready. PodFailed with the end of its log otherwise."""
        return self.pod.wait_ready(timeout)

    # requests

    def ask(
        self,
        text: str,
        *,
        tokens: int = TOKENS,
        model: str = SERVED,
        timeout: float = 180,
        **more: Any,
    ) -> Answer:
        """Complete `text` without chance; further words go into the request's body."""
        body = {"model": model, "prompt": text, "max_tokens": tokens, "temperature": 0}
        body |= {"logprobs": 1, "ignore_eos": True, **more}
        begun = time.monotonic()
        said = self.post("/v1/completions", body, timeout)
        (choice,) = said["choices"]
        usage = said["usage"]
        details = usage.get("prompt_tokens_details") or {}
        return Answer(
            text=choice["text"],
            logprobs=tuple((choice.get("logprobs") or {}).get("token_logprobs") or ()),
            prompt_tokens=usage["prompt_tokens"],
            cached=details.get("cached_tokens") or 0,
            seconds=time.monotonic() - begun,
            parameters=said.get("kv_transfer_params"),
        )

    def through(self, decode: "Engine", text: str) -> Answer:
        """What a router does with a request: this engine computes the prompt, and `decode` fetches
        its blocks and goes on."""
        handed = self.ask(text, tokens=1, kv_transfer_params=HAND_OVER).parameters
        assert handed is not None and handed["do_remote_prefill"]
        return decode.ask(text, kv_transfer_params=dict(handed))

    def post(self, path: str, body: Mapping[str, Any], timeout: float = 60) -> Any:
        """The JSON that a POST is answered with, None where it is not JSON; raises HTTPError."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            content = answer.read()
        try:
            return json.loads(content)
        except ValueError:
            return None

    def stream(self, text: str, *, tokens: int, timeout: float = 180, **more: Any) -> Iterator[str]:
        """The pieces of an answer as they come."""
        body = {"model": SERVED, "prompt": text, "max_tokens": tokens, "temperature": 0}
        body |= {"stream": True, "ignore_eos": True, **more}
        request = urllib.request.Request(
            self.url + "/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            for line in answer:
                data = line.decode().removeprefix("data: ").strip()
                if data and data != "[DONE]":
                    yield json.loads(data)["choices"][0]["text"]

    # what it counts

    def samples(self) -> dict[str, float]:
        """Every sample of /metrics: name with labels -> value."""
        return parse_metrics(scrape(self.url + "/metrics"))

    def external(self) -> float:
        """Prompt tokens that the engine took from its tier so far."""
        return self.counted(self.external_metric)

    def elsewhere(self) -> float:
        """Prompt tokens from other places than the device, by the metric that names the places."""
        return self.counted(self.sources_metric) - self.counted(
            self.sources_metric, source="device"
        )

    def forget(self) -> None:
        """Empty the engine's own cache, so that the tier is asked again."""
        self.post("/reset_prefix_cache", {})

    def counted(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry the labels."""
        return total(self.samples(), name, **labels)


class Offloading(Engine):
    """vLLM with its own offloading. `forget` empties its host memory as well, not the files."""

    def forget(self) -> None:
        self.post("/reset_prefix_cache?reset_external=true", {})


class SGLang(Engine):
    """SGLang counts by where tokens came from. `forget` empties its host memory as well."""

    media = ("GPU", "CPU_PINNED")
    external_metric = "sglang:cached_tokens_total"
    sources_metric = external_metric

    def external(self) -> float:
        return self.counted(self.external_metric, cache_source="storage")

    def elsewhere(self) -> float:
        return self.external() + self.counted(self.sources_metric, cache_source="host")

    def forget(self) -> None:
        self.post("/flush_cache?timeout=30", {})  # it waits for what is under way

    def computed(self) -> float:
        """Prompt tokens that went through the model so far."""
        return self.counted("sglang:realtime_tokens_total", mode="prefill_compute")

    def through(self, decode: Engine, text: str) -> Answer:
        """Both are asked at once, and meet by a number at the bootstrap server of this engine."""
        place, other = self._meeting(), ThreadPoolExecutor(1)
        prefill = other.submit(self.ask, text, **place)
        other.shutdown(wait=False)  # what decode refuses is refused at once
        said = decode.ask(text, **place)
        prefill.result()
        return said

    def stream_through(self, decode: Engine, text: str, *, tokens: int) -> Iterator[str]:
        """The pieces of such an answer as they come from decode."""
        place = self._meeting()
        with ThreadPoolExecutor(1) as other:
            other.submit(self.ask, text, tokens=tokens, **place)
            yield from decode.stream(text, tokens=tokens, **place)

    def _meeting(self) -> dict[str, Any]:
        declared = [port for c in self.pod.spec["containers"] for port in c["ports"]]
        (port,) = (p["containerPort"] for p in declared if p["name"] == "nixl-bootstrap")
        room = next(_ROOMS)
        return {"bootstrap_host": self.pod.address, "bootstrap_port": port, "bootstrap_room": room}


def scrape(url: str) -> str:
    """A page of metrics."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus' text format: name with labels -> value."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def total(samples: Mapping[str, float], name: str, **labels: str) -> float:
    """The sum of the samples of that name, optionally with those labels."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(
        value
        for sample, value in samples.items()
        if re.split(r"[{ ]", sample, maxsplit=1)[0] == name
        and all(text in sample for text in wanted)
    )


@dataclass(frozen=True)
class Asked:
    """One request of a loop: when it began, its prompt's seed, its answer or why there is none,
    and how many of its tokens came from the tier."""

    begun: float
    seed: int
    answer: Answer | None
    failure: str
    external: int


class RequestLoop(threading.Thread):
    """Requests one after another until told to stop; every answer and every failure is kept.

    The engine forgets its own cache after each, so that every prompt goes to the tier again.
    """

    def __init__(self, engine: Engine, seeds: Sequence[int]):
        super().__init__(daemon=True)
        self.asked: list[Asked] = []
        self._engine, self._seeds = engine, seeds
        self._done = threading.Event()

    def run(self) -> None:
        for seed in itertools.cycle(self._seeds):
            begun, answer, failure, external = time.monotonic(), None, "", 0
            try:
                before = self._engine.external()
                answer = self._engine.ask(prompt(seed))
                external = int(self._engine.external() - before)
                self._engine.forget()
            except (OSError, http.client.HTTPException) as problem:
                failure = f"{type(problem).__name__}: {problem}"
                time.sleep(1)
            self.asked.append(Asked(begun, seed, answer, failure, external))
            if self._done.is_set():
                return

    def since(self, moment: float) -> list[Asked]:
        """What was asked after that moment, and has been answered."""
        return [asked for asked in list(self.asked) if asked.begun > moment]

    def finish(self) -> list[Asked]:
        """Let the request in flight end: all that was asked."""
        self._done.set()
        self.join()
        return self.asked
