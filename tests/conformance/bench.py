"""`lmcache bench server`, upstream's own client: real stores, lookups and retrieves with checksums.

It stands in for an engine: registers a KV pool of the given shape under a model string, stores
tokens, looks them up and reads them back. Without a GPU it shares POSIX memory with the server, so
it runs inside the server's container (with isolated IPC on GPUs nothing is shared).
"""

import http.client
import re
from dataclasses import dataclass

from tests.conformance.pod import Pod

# bench names every model alike; the program is `lmcache` with another name for it.
RENAMED = """
import sys
from lmcache.cli.commands.bench.server_bench import helpers
from lmcache.cli.main import main
assert helpers._MODEL_NAME == "test-model"
helpers._MODEL_NAME = sys.argv.pop(1)
main()
"""
SHAPE = "(2,256,16,4,64):float16:8"  # K and V, blocks, tokens a block, heads, head size; 8 layers


@dataclass(frozen=True)
class Bench:
    """`cold_hits`: chunks found by the first lookup of each request, before anything is stored.

    `checksums`: of the bytes that the last retrieve of each request brought. `ok`: requests whose
    retrieve brought the bytes that this client stored itself.
    """

    cold_hits: list[int]
    checksums: list[str]
    ok: int
    output: str


def bench(
    pod: Pod,
    container: str,
    tokens: int = 1024,
    start: int = 0,
    end: int = 2,
    shape: str = SHAPE,
    model: str = "test-model",
) -> Bench:
    """Requests `start` to `end` of `tokens` tokens each, against the server in that container."""
    command = [
        *("python3", "-c", RENAMED, model, "bench", "server"),
        *("--mode", "cpu", "--transfer-mode", "lmcache_driven"),
        *("--rpc-url", f"tcp://{pod.address}:5555", "--url", f"http://{pod.address}:8080"),
        *("--kvcache-shape-spec", shape, "--num-tokens", str(tokens)),
        *("--start", str(start), "--end", str(end)),
    ]
    done = pod.containers[container].execute(command, timeout=120)
    if done.returncode:
        raise RuntimeError(f"bench exited {done.returncode}:\n{done.stdout}\n{done.stderr[-3000:]}")

    text = done.stdout
    warm = re.findall(r"seq \d+/warm\] CHECKSUM: (\w+)", text)
    return Bench(
        cold_hits=[int(hit) for hit in re.findall(r"/cold\] LOOKUP: (\d+)/", text)],
        checksums=warm,
        ok=int(re.search(r"Checksum OK:\s+(\d+)", text)[1]),
        output=text,
    )


def clear(pod: Pod) -> None:
    """Empty the server's memory."""
    request(pod, "POST", "/cache/clear")


def request(pod: Pod, method: str, path: str, port: int = 8080) -> str:
    """What the server's HTTP API answers."""
    connection = http.client.HTTPConnection(pod.address, port, timeout=20)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    if response.status >= 300:
        raise RuntimeError(f"{method} {path}: HTTP {response.status} {text}")
    return text


def metrics(pod: Pod, port: int = 8080) -> dict[str, float]:
    """The server's Prometheus samples, summed over labels: name -> value."""
    text = request(pod, "GET", "/metrics", port)
    out: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            out[name] = out.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
    return out
