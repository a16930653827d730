"""Documents that nest deeper than protobuf reads by itself."""

import asyncio
from typing import Any, cast

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.fn import FunctionRunner
from tests.unit.composers import documents as d
from tests.unit.composers.calls import outcome, request

KEY = "model-serving-main"


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes on the wire: protobuf's own messages cannot be built so deep."""
    length, head = len(data), bytearray([number << 3 | 2])
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes(head) + bytes([length]) + data


def _nested(levels: int) -> bytes:
    """A Struct {"spec": {"a": {"a": ... "x"}}} of so many levels."""
    value = _field(3, b"x")
    for name in (*[b"a"] * (levels - 1), b"spec"):
        struct = _field(1, _field(1, name) + _field(2, value))
        value = _field(5, struct)
    return struct


def reply(levels: int, *, composite: bool = False) -> bytes:
    """What a new process answers where a desired resource, or the composite, nests so deep."""
    given = request(
        d.replica(), desired={KEY: d.engine()}, required=d.requirements(d.ready_tier())
    ).SerializeToString()
    deep = _field(1, _nested(levels))
    if composite:
        given += _field(2, _field(1, deep))
    else:
        given += _field(3, _field(2, _field(1, b"deep") + _field(2, deep)))
    return asyncio.run(FunctionRunner().run_serialized(given, cast(Any, None)))


def answer(levels: int, *, composite: bool = False) -> fnv1.RunFunctionResponse:
    return fnv1.RunFunctionResponse.FromString(reply(levels, composite=composite))


@pytest.mark.parametrize("levels", [31, 32, 100, 5_000])
def test_deep_resource_beside_an_engine_is_passed_on(levels: int) -> None:
    got = answer(levels)
    assert not got.results
    assert got.desired.resources["deep"].resource.ByteSize() > 10 * levels
    del got.desired.resources["deep"]
    assert outcome(got).conditions["KVOffloadReady"] == ("True", "Wired")


def test_resource_that_no_api_server_stores_ends_no_process() -> None:
    wire = reply(20_000)
    assert b"KVOffloadReady" in wire and len(wire) > 20_000


def test_deep_composite_is_read() -> None:
    assert outcome(answer(100, composite=True)).conditions["KVOffloadReady"] == ("True", "Wired")


def test_too_deep_a_composite_is_refused_and_what_runs_is_kept() -> None:
    got = answer(5_000, composite=True)
    (said,) = got.results
    assert said.severity == fnv1.SEVERITY_FATAL
    assert "nests deeper; everything that runs is kept" in said.message
