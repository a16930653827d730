"""What a fleet of 10, 100 and 1,000 clusters costs the function: `python -m tests.bench.sizes`.

A tier on every cluster with ten consumers each. The server is a process of its own; its CPU and
peak memory are from /proc. Two rounds: every request for the first time, then the same again, as
it comes by the TTL. The table of docs/sizes.md is from here.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator

import grpc
from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1
from rich.console import Console
from rich.table import Table

from function.edge.answer import TTL_WITH_REQUIREMENTS
from tests.bench import requests
from tests.bench.run import _OPTIONS, _OURS, Server, serving

CONSUMERS, UNDER_WAY = 10, 8
MIB = 1024 * 1024


def calls(clusters: int) -> Iterator[fnv1.RunFunctionRequest]:
    """A call of each composite: the fleet tier, its children, their consumers."""
    yield requests.fleet(0, clusters)
    for number in range(clusters):
        yield requests.tier(number)
    for number in range(clusters * CONSUMERS):
        yield requests.consumer(number)


async def round_of(server: Server, clusters: int) -> tuple[float, float]:
    """Call once for each composite; CPU seconds of the server for the fleet tier and the others."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=_OPTIONS) as channel:
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        begun, waiting, first = server.cpu_seconds(), set(), 0.0
        for number, call in enumerate(calls(clusters)):
            waiting.add(asyncio.ensure_future(stub.RunFunction(call)))
            if number == 0 or len(waiting) == UNDER_WAY:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    _check(each.result())
            if number == 0:
                first = server.cpu_seconds() - begun
        for each in await asyncio.gather(*waiting):
            _check(each)
        return first, server.cpu_seconds() - begun - first


def _check(response: fnv1.RunFunctionResponse) -> None:
    for result in response.results:
        if result.severity == fnv1.SEVERITY_FATAL:
            raise RuntimeError(result.message)


def messages(clusters: int) -> tuple[float, float, float, float]:
    """MiB of the fleet tier's request, response and status, and of the whole tier in etcd.

    Without its managedFields: some 90 bytes for each cluster.
    """
    request = requests.fleet(0, clusters)
    response = requests.answer(request)
    tier = resource.struct_to_dict(request.observed.composite.resource)
    status = resource.struct_to_dict(response.desired.composite.resource)["status"]
    found = [resource.struct_to_dict(it.resource) for it in request.observed.resources.values()]
    refs = [
        {"apiVersion": it["apiVersion"], "kind": it["kind"], "name": it["metadata"]["name"]}
        for it in found
    ]
    whole = tier | {"spec": tier["spec"] | {"crossplane": {"resourceRefs": refs}}, "status": status}
    return (
        request.ByteSize() / MIB,
        response.ByteSize() / MIB,
        len(json.dumps(status).encode()) / MIB,
        len(json.dumps(whole).encode()) / MIB,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, nargs="+", default=[10, 100, 1000])
    columns = (
        "clusters", "composites", "request MiB", "response MiB", "status MiB", "tier MiB",
        "first: fleet s", "others s", "again: fleet s", "others s", "cores at TTL", "peak MiB",
    )  # fmt: skip
    table = Table(*columns)
    with tempfile.TemporaryDirectory() as bytecode:
        for clusters in parser.parse_args().clusters:
            sizes, begun = messages(clusters), time.monotonic()
            with serving(_OURS, bytecode) as server:
                first = asyncio.run(round_of(server, clusters))
                again = asyncio.run(round_of(server, clusters))
                cores = sum(again) / TTL_WITH_REQUIREMENTS
                figures = (*sizes, *first, *again, cores, server.peak_mib())
            composites = 1 + clusters * (1 + CONSUMERS)
            table.add_row(str(clusters), str(composites), *(f"{each:.3g}" for each in figures))
            print(f"{clusters} clusters: {time.monotonic() - begun:.0f} s", flush=True)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
