"""An engine that serves, and what it says: texts, log-probabilities, and where tokens came from."""

import hashlib
import json
import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.pod import Pod
from tests.serve.author import PORT, SERVED

TOKENS = 24  # what a request generates, where it does not say


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

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]


class Engine:
    """`pod` is the engine's; it need not be ready yet."""

    def __init__(self, pod: Pod):
        self.pod = pod
        self.url = f"http://{pod.address}:{PORT}"

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def log(self) -> str:
        return self.pod.containers["engine"].log

    def wait(self, timeout: float = 300) -> float:
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

    def counted(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry the labels."""
        return total(self.samples(), name, **labels)


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


class Asking(threading.Thread):
    """Requests one after another until told to stop; every answer and every failure is kept."""

    def __init__(self, engine: Engine, prompts: list[str], **more: Any):
        super().__init__(daemon=True)
        self.answers: list[tuple[str, Answer]] = []
        self.failures: list[str] = []
        self._engine, self._prompts, self._more = engine, prompts, more
        self._done = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._done.is_set():
            text = self._prompts[number % len(self._prompts)]
            number += 1
            try:
                self.answers.append((text, self._engine.ask(text, **self._more)))
            except (OSError, urllib.error.HTTPError) as problem:
                self.failures.append(f"{type(problem).__name__}: {problem}")

    def finish(self) -> None:
        """Let the request in flight end."""
        self._done.set()
        self.join()
