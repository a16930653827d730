"""Ways in which a wired engine has no use of its tier, and what the observer says of each.

Each is made with real engines and servers; the observer must name it within a minute of traffic, or
as long as its row says. Traffic is a few prompts in turn, each asked twice: prompts repeat, and the
engine's own cache is too small to hold them.
"""

import contextlib
import copy
import functools
import http.client
import json
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conformance.container import Container
from tests.conformance.manifests import Manifest
from tests.conformance.node import HOST_IP
from tests.conformance.pod import Pod
from tests.serve import author
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import Fleet
from tests.serve.test_12_observed import PATIENCE, Observer
from tests.serve.test_70_full import shared
from tests.serve.test_75_damaged import zero_half
from tests.serve.test_77_wrong_blocks import Fault as FilesFault
from tests.serve.test_77_wrong_blocks import running

SMALL = author.Pod(args=("--num-gpu-blocks-override", "160"))  # 10,240 tokens
SMALL_SGLANG = author.Pod(args=("--max-total-tokens", "10240"))
CONFIG = "--kv-transfer-config"
LONG = 3000  # tokens of a prompt
PROMPTS = 6  # in turn: 18,000 tokens
WAITS = 20.0  # seconds for an answer: a hanging engine gives none
AT_ONCE = 32  # requests, where prompts are short
Change = Callable[[list[str]], list[str]]
Fault = Callable[[Fleet, Engine], contextlib.AbstractContextManager[object]]


def drop(flag: str, values: int = 1) -> Change:
    """Return the change of a webhook or a wrapper that loses a flag."""

    def change(words: list[str]) -> list[str]:
        at = words.index(flag)
        return words[:at] + words[at + 1 + values :]

    return change


def add(*more: str) -> Change:
    """Return the change of a wrapper that has flags of its own."""
    return lambda words: [*words, *more]


def role(name: str) -> Change:
    """Return the change of an engine's role in its tier."""

    def change(words: list[str]) -> list[str]:
        at = words.index(CONFIG) + 1
        config = json.dumps({**json.loads(words[at]), "kv_role": name})
        return [*words[:at], config, *words[at + 1 :]]

    return change


def same(words: list[str]) -> list[str]:
    return words


@contextlib.contextmanager
def nothing(fleet: Fleet, engine: Engine) -> Iterator[None]:
    yield


def gone(part: str) -> Fault:
    """Return the fault of a part that stops and does not come back."""

    @contextlib.contextmanager
    def fault(fleet: Fleet, engine: Engine) -> Iterator[None]:
        fleet.tier.stop(part)
        try:
            yield
        finally:
            fleet.tier.begin(part)
            fleet.tier.parts[part].wait_ready(120)

    return fault


def hangs(part: str) -> Fault:
    """Return the fault of a part whose processes are stopped."""
    return lambda fleet, engine: _stopped(fleet.tier.container(part))


def engine_hangs(fleet: Fleet, engine: Engine) -> contextlib.AbstractContextManager[None]:
    """The engine's processes are stopped."""
    return _stopped(engine.pod.containers["engine"])


def cut(part: str) -> Fault:
    """Return the fault of a NetworkPolicy: what the engine sends to a part is lost."""
    return lambda fleet, engine: _lost(engine.pod, fleet.tier.parts[part].address)


def engine_cut(fleet: Fleet, engine: Engine) -> contextlib.AbstractContextManager[None]:
    """A NetworkPolicy of the engine's namespace lets nobody in: its answers are lost."""
    return _lost(engine.pod, HOST_IP)


@contextlib.contextmanager
def _stopped(container: Container) -> Iterator[None]:
    container.signal_all(signal.SIGSTOP)
    try:
        yield
    finally:
        container.signal_all(signal.SIGCONT)


@contextlib.contextmanager
def _lost(pod: Pod, address: str) -> Iterator[None]:
    """What the pod sends to the address goes to a machine that is not there."""
    _ip(pod, f"neigh replace {address} lladdr 02:00:00:00:00:01 dev eth0 nud permanent")
    try:
        yield
    finally:
        _ip(pod, f"neigh del {address} dev eth0")


def _ip(pod: Pod, words: str) -> None:
    inside = ["nsenter", f"--net=/proc/{pod.process}/ns/net", "ip"]
    subprocess.run([*inside, *words.split()], check=True)


@contextlib.contextmanager
def folder_lost(fleet: Fleet, engine: Engine) -> Iterator[None]:
    """Somebody has put a file in the place of the blocks' folder."""
    volume = shared(fleet, {"spec": engine.pod.spec})
    folders = [folder for folder in volume.iterdir() if folder.is_dir()]
    for folder in folders:
        folder.rename(f"{folder}.old")
        folder.touch()
    try:
        yield
    finally:
        for folder in folders:
            folder.unlink()
            Path(f"{folder}.old").rename(folder)


def files_damaged(fleet: Fleet, engine: Engine) -> contextlib.AbstractContextManager[object]:
    """The disk loses half of each new file."""
    volume = shared(fleet, {"spec": engine.pod.spec})
    return running(FilesFault(volume, lambda _, content: zero_half(content)))


@dataclass(frozen=True)
class Way:
    """`change`: of the engine's arguments after they were wired. `fault`: of what is around it,
    from its first answer on. `length`: of the prompts. `forgets`: the engine and its host memory
    forget after each prompt. `patience`: seconds of traffic. `settings`: more for the observer."""

    pair: str
    name: str
    state: str
    cause: str = ""
    change: Change = same
    fault: Fault = nothing
    length: int = LONG
    forgets: bool = False
    patience: float = PATIENCE
    settings: Mapping[str, object] = field(default_factory=dict)


WAYS = (
    Way("vllm-mooncake", "connector dropped", "Silent", "NoLookups", drop(CONFIG)),
    Way("vllm-mooncake", "reads only", "Silent", "NoWrites", role("kv_consumer")),
    Way("vllm-mooncake", "prompts below a block", "Silent", "NoWrites", length=63),
    Way("vllm-mooncake", "store gone", "Failing", fault=gone("store")),
    Way("vllm-mooncake", "master gone", "Failing", fault=gone("master")),
    Way("vllm-mooncake", "store hangs", "Failing", fault=hangs("store")),
    Way("vllm-mooncake", "master hangs", "Failing", fault=hangs("master")),
    # Its transfers wait for TCP's own time-outs, and requests with them.
    Way("vllm-mooncake", "store cut off", "Failing", fault=cut("store"), patience=300),
    Way("vllm-mooncake", "master cut off", "Failing", fault=cut("master")),
    Way("vllm-mooncake", "engine cut off", "Unreachable", fault=engine_cut),
    Way("vllm-mooncake", "engine hangs", "Unreachable", fault=engine_hangs),
    Way("vllm-lmcache", "connector dropped", "Silent", "NoLookups", drop(CONFIG)),
    Way("vllm-lmcache", "prompts below a chunk", "Silent", "NoWrites", length=250),
    # Without its agent the connector goes on looking up, as vLLM counts it, and finds nothing.
    Way("vllm-lmcache", "agent gone", "NeverRead", fault=gone("agent"), patience=180),
    Way("vllm-lmcache", "agent hangs", "NeverRead", fault=hangs("agent"), patience=180),
    Way("vllm-lmcache", "agent cut off", "NeverRead", fault=cut("agent"), patience=180),
    Way("vllm-lmcache", "engine cut off", "Unreachable", fault=engine_cut),
    Way("vllm-lmcache", "engine hangs", "Unreachable", fault=engine_hangs),
    Way("vllm-native", "connector dropped", "Silent", "NoLookups", drop(CONFIG)),
    Way("vllm-native", "prompts below a block", "Silent", "NoWrites", length=63),
    Way("vllm-native", "folder lost", "Failing", fault=folder_lost, forgets=True),
    Way("vllm-native", "files damaged", "Failing", fault=files_damaged, forgets=True),
    Way("vllm-native-bucket", "bucket gone", "Failing", fault=gone("bucket"), forgets=True),
    Way("vllm-native-bucket", "bucket hangs", "Failing", fault=hangs("bucket"), forgets=True),
    Way("vllm-native-bucket", "bucket cut off", "Failing", fault=cut("bucket"), forgets=True),
    Way("vllm-native-simple", "connector dropped", "Silent", "NoLookups", drop(CONFIG)),
    Way(
        "vllm-native-simple",
        "prefix caching off",
        "Silent",
        "PrefixCachingOff",
        add("--no-enable-prefix-caching"),
    ),
    Way("vllm-nixl", "decode alone", "Silent", "NoTransfers", settings={"pairs": True}),
    # SGLang counts neither lookups nor failures: what its own cache has forgotten three times must
    # be found.
    Way(
        "sglang-hicache-file",
        "hierarchy dropped",
        "NeverRead",
        "",
        drop("--enable-hierarchical-cache", 0),
        patience=240,
    ),
    Way(
        "sglang-hicache-file",
        "metrics off",
        "Unreachable",
        "NoMetrics",
        drop("--enable-metrics", 0),
    ),
    Way(
        "sglang-mooncake",
        "master gone",
        "NeverRead",
        fault=gone("master"),
        forgets=True,
        patience=480,
        # Forgetting waits for writes that fail: a prompt each 15 s, as often as the default looks.
        settings={"interval": 15},
    ),
)


@pytest.mark.long
@pytest.mark.ways(WAYS)
def test_a_way_to_be_off_is_named(fleet: Fleet, way: Way, tmp_path: Path, proof) -> None:
    _ = fleet.tier
    pod = SMALL_SGLANG if way.pair.startswith("sglang") else SMALL
    wired = fleet.wired({"main": pod})
    template = changed(wired.templates["main"], way.change)
    engine = fleet.run(way.name, type(wired)({"main": template}, wired.config_maps))
    try:
        engine.wait()
        ask(engine, way, 0)
        observer = Observer(tmp_path, fleet, engine, settings=way.settings)
        try:
            observer.until_first_write()  # it knows then of which kind the tier's parts are
            with way.fault(fleet, engine):
                busy = functools.partial(ask, engine, way)
                seconds = observer.until(way.state, way.cause, busy=busy, patience=way.patience)
        finally:
            observer.close()
    finally:
        fleet.stop(way.name)
    said = f"{way.state} {way.cause}".strip()
    proof(f"off: {way.name}", says=said, seconds=seconds)


def changed(template: Manifest, change: Change) -> Manifest:
    """The template with other arguments of its engine."""
    out = copy.deepcopy(template)
    (container,) = (c for c in out["spec"]["containers"] if c["name"] == "engine")
    container["args"] = change(container["args"])
    return out


def ask(engine: Engine, way: Way, number: int) -> None:
    """Ask a prompt twice; many where they are short. No other way has asked the same ones."""
    own = zlib.crc32(f"{way.pair} {way.name}".encode())
    if way.length < LONG:
        texts = [prompt(own + AT_ONCE * number + n, way.length) for n in range(AT_ONCE)]
    else:
        texts = [prompt(own + number % PROMPTS)]
    with ThreadPoolExecutor(AT_ONCE) as requests:
        for _ in range(2):
            list(requests.map(functools.partial(_answered, engine), texts))
    if way.forgets:
        time.sleep(0.3)
        engine.forget()


def _answered(engine: Engine, text: str) -> None:
    """Ask; what fails is the observer's to say."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        engine.ask(text, tokens=1, timeout=WAITS)
