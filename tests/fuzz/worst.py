"""Measures the worst calls that are known: `python -m tests.fuzz.worst`.

Prints the tables of docs/security.md: bytes in, CPU of one call, what the process holds after 11
edits, and how long another team's calls take next to five attackers with the costliest of them.
Times are CPU of the process, so that a busy machine changes little. Fails where a figure is above
its bound. A unit test holds the page to the names, the bytes and the bounds of this module.
"""

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import crossplane.function.proto.v1.run_function_pb2_grpc as grpcv1
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function import fn
from tests.unit.composers import documents as d
from tests.unit.composers.calls import request
from tests.unit.edge import test_neighbours as neighbours
from tests.unit.edge.test_server import serving

EDITS, CALLS = 11, 60
# Bounds: several times what the table has, for other machines.
MOST_SECONDS, MOST_MIB, MOST_SLOWED = 10.0, 400.0, 0.5


def annotated(number: int) -> fnv1.RunFunctionRequest:
    """An annotation of 256 KiB that a quadratic pattern would not survive."""
    version = f"{number}-" + "a-" * (128 * 1024) + "!"
    document = d.engine(
        {
            "modelplane.ai/kv-offload-tier": "chat",
            "modelplane.ai/kv-offload-engine-version": version,
        }
    )
    return request(d.replica(), desired={"engine": document}, required=neighbours.REQUIRED)


def dollars(number: int) -> fnv1.RunFunctionRequest:
    """Seven containers with 90,000 `$$` each."""
    document = d.engine()
    d.wired_pod(document)["spec"]["containers"] = [
        {"name": f"c{n}", "command": ["vllm", "serve", f"m{number}"], "args": ["$$" * 90_000]}
        for n in range(7)
    ]
    return request(d.replica(), desired={"engine": document}, required=neighbours.REQUIRED)


def unread(number: int) -> fnv1.RunFunctionRequest:
    """Nearly 256 KiB of annotations that nothing reads."""
    keys = {f"modelplane.ai/kv-{number}-{n:05}": "" for n in range(9_000)}
    document = d.engine({"modelplane.ai/kv-offload-tier": "chat", **keys})
    return request(d.replica(), desired={"engine": document}, required=neighbours.REQUIRED)


HEAD = ("Input", "Bytes", "CPU of a call", "Memory held")
HEAD_NEIGHBOURS = ("Call of another team", "Median", "Worst")
INPUTS: dict[str, Callable[[int], fnv1.RunFunctionRequest]] = {
    "an annotation `a-a-...!`": annotated,
    "variables that double, run as a script of 4 KiB": lambda n: neighbours.worst(n, 1),
    "the same in ten containers": neighbours.worst,
    "six scripts of 48 KB, of assignments": neighbours.heavy,
    "seven containers with 90,000 `$$` each": dollars,
    "9,000 annotations `modelplane.ai/kv-...` that nothing reads": unread,
}


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def measure(made: Callable[[int], fnv1.RunFunctionRequest]) -> tuple[int, float, float]:
    """Bytes, seconds of CPU of one call (the median), MiB more after all edits."""
    runner = fn.FunctionRunner()
    runner.run(made(-1))
    before, spent = resident(), []
    for number in range(EDITS):
        asked = made(number)
        begun = time.thread_time()
        runner.run(asked)
        spent.append(time.thread_time() - begun)
    return made(0).ByteSize(), statistics.median(spent), resident() - before


async def slowed_neighbours() -> dict[str, list[float]]:
    """Seconds of the server's CPU that another team's cold and steady calls wait for."""
    found: dict[str, list[float]] = {"cold": [], "steady": []}
    async with serving(fn.FunctionRunner()) as channel:
        stub: Any = grpcv1.FunctionRunnerServiceStub(channel)
        await stub.RunFunction(neighbours.other(-1))

        async def attack(lane: int) -> None:
            for number in range(lane, 100_000, 5):
                await stub.RunFunction(neighbours.heavy(number))

        attackers = [asyncio.ensure_future(attack(lane)) for lane in range(5)]
        await asyncio.sleep(1)
        for number in range(CALLS):
            for times in found.values():
                asked, begun = neighbours.other(number), time.process_time()
                await stub.RunFunction(asked)
                times.append(time.process_time() - begun)
        for attacker in attackers:
            attacker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await attacker
    return found


def main() -> int:
    bad = False
    print(row(*HEAD), row(*["---"] * len(HEAD)), sep="\n")
    for name, made in INPUTS.items():
        size, seconds, mib = measure(made)
        cells = f"{size:,}", f"{seconds * 1e3:.0f} ms", f"{mib:.0f} MiB"
        print(row(name, *cells), flush=True)
        bad = bad or seconds > MOST_SECONDS or mib > MOST_MIB
    print("", row(*HEAD_NEIGHBOURS), row(*["---"] * len(HEAD_NEIGHBOURS)), sep="\n")
    for name, times in asyncio.run(slowed_neighbours()).items():
        middle, worst = statistics.median(times), max(times)
        print(row(name, f"{middle * 1e3:.0f} ms", f"{worst * 1e3:.0f} ms"))
        bad = bad or worst > MOST_SLOWED
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
