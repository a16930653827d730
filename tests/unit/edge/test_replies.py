"""The reply cache: its key, the lifetime of a reply, and its bounds."""

import asyncio
import contextlib
import random
from typing import Any

import crossplane.function.proto.v1.run_function_pb2_grpc as grpcv1
import crossplane.function.proto.v1beta1.run_function_pb2_grpc as grpcv1beta1
import grpc
import pytest
from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1beta1 import run_function_pb2 as fnv1beta1
from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError
from prometheus_client import REGISTRY

from function import fn
from function.edge import replies
from function.edge.answer import Answer
from function.edge.replies import Counted, Replies, Reply
from tests.bench import requests
from tests.unit.edge.test_server import serving

CASES = {
    "a tier": lambda: requests.tier(0),
    "a consumer": lambda: requests.consumer(0),
}


def key(request: fnv1.RunFunctionRequest) -> bytes:
    return replies.request_key(replies.untagged(request.SerializeToString()))


def tagged(**fields: Any) -> fnv1.RunFunctionRequest:
    request = fnv1.RunFunctionRequest(meta=fnv1.RequestMeta(tag="t"))
    for name, documents in fields.items():
        items = request.required_resources[name].items
        for document in documents:
            items.add().resource.CopyFrom(resource.dict_to_struct(document))
    return request


def test_required_resources_are_part_of_the_key() -> None:
    tier = {"spec": {"a": 1}, "status": {"ready": True}}
    names = {
        key(tagged()),
        key(tagged(tier=[])),
        key(tagged(tier=[tier])),
        key(tagged(tier=[tier, tier])),
        key(tagged(tier=[tier | {"status": {"ready": False}}])),
        key(tagged(other=[tier])),
    }
    assert len(names) == 6


@pytest.mark.parametrize("field", ["context", "credentials", "required_schemas", "capabilities"])
def test_every_other_field_is_part_of_the_key(field: str) -> None:
    request = tagged()
    match field:
        case "context":
            request.context.CopyFrom(resource.dict_to_struct({"a": 1}))
        case "credentials":
            request.credentials["a"].credential_data.data["key"] = b"secret"
        case "required_schemas":
            request.required_schemas["a"].openapi_v3.CopyFrom(resource.dict_to_struct({"a": 1}))
        case "capabilities":
            request.meta.capabilities.append(fnv1.CAPABILITY_CAPABILITIES)
    assert key(request) != key(tagged())


def test_request_without_a_tag_has_no_key() -> None:
    request = tagged()
    request.meta.ClearField("tag")
    assert key(request) == b""
    assert key(fnv1.RunFunctionRequest()) == b""


def shuffled(message: Any, rng: random.Random) -> bytes:
    """The message on the wire with the entries of its maps in another order, at every depth."""
    if isinstance(message, struct_pb2.Struct):
        entries = list(message.fields.items())
        rng.shuffle(entries)
        out = b""
        for name, value in entries:
            inner = value.SerializeToString()
            if value.WhichOneof("kind") == "struct_value":
                inner = framed(5, shuffled(value.struct_value, rng))
            out += framed(1, framed(1, name.encode()) + framed(2, inner))
        return out
    return message.SerializeToString()


def framed(number: int, body: bytes) -> bytes:
    size, out = len(body), bytes([number << 3 | 2])
    while size >= 0x80:
        out, size = out + bytes([size & 0x7F | 0x80]), size >> 7
    return out + bytes([size]) + body


def test_map_order_on_the_wire_does_not_change_the_key() -> None:
    document = {f"k{i}": {f"n{j}": j for j in range(9)} for i in range(9)}
    request = tagged(tier=[document])
    meta = framed(1, request.meta.SerializeToString())
    struct = request.required_resources["tier"].items[0].resource
    wires = set()
    for seed in range(20):
        body = shuffled(struct, random.Random(seed))
        resources = framed(1, framed(1, body))
        wires.add(meta + framed(8, framed(1, b"tier") + framed(2, resources)))
    assert len(wires) == 20
    assert {
        fnv1.RunFunctionRequest.FromString(w).SerializeToString(deterministic=True) for w in wires
    } == {request.SerializeToString(deterministic=True)}
    assert {replies.request_key(replies.untagged(wire)) for wire in wires} == {key(request)}


@pytest.mark.parametrize("name", CASES)
def test_tagged_fields_are_skipped_without_parsing(name: str) -> None:
    request = CASES[name]()
    rest = fnv1.RunFunctionRequest.FromString(replies.untagged(request.SerializeToString()))
    bulk = [field for field in ("observed", "desired", "input") if request.HasField(field)]
    assert bulk
    assert not any(rest.HasField(field) for field in ("observed", "desired", "input"))
    for field in bulk:
        request.ClearField(field)
    assert rest == request


def test_arbitrary_bytes_parse_or_raise_decode_error() -> None:
    rng = random.Random(1)
    wire = requests.tier(0).SerializeToString()[:2000]
    for size in range(0, 2000, 7):
        broken = bytearray(wire[:size])
        for _ in range(size // 50):
            broken[rng.randrange(size)] = rng.randrange(256)
        for data in (bytes(broken), rng.randbytes(size % 60)):
            with contextlib.suppress(DecodeError):
                replies.request_key(replies.untagged(data))


# Through the server ------------------------------------------------------------------------------


class Counting:
    """A composer that says how often it was called, and depends on the clock up to `edge`."""

    def __init__(self, edge: float | None = None) -> None:
        self.calls, self.edge, self.answer = 0, edge, Answer

    def __call__(self, call: Any, *_: Any) -> Answer:
        self.calls += 1
        answer = self.answer()
        if self.edge is not None:
            answer.ttl = 20 if call.has_passed(self.edge) else 10
        return answer


async def ask(
    runner: fn.FunctionRunner, *asked: fnv1.RunFunctionRequest
) -> list[fnv1.RunFunctionResponse]:
    async with serving(runner) as channel:
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        return [await stub.RunFunction(request) for request in asked]


async def test_known_request_is_answered_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    composer = Counting()
    monkeypatch.setattr(fn, "_CONSUMER", ("counting", composer))
    calls = {"composer": "counting", "outcome": "ok"}
    before = REGISTRY.get_sample_value("function_kv_offload_calls_total", calls) or 0
    first, again, other = await ask(
        fn.FunctionRunner(), tagged(), tagged(), tagged(tier=[{"status": {"ready": True}}])
    )
    assert first == again == other
    assert composer.calls == 2
    assert REGISTRY.get_sample_value("function_kv_offload_calls_total", calls) == before + 3


@pytest.mark.parametrize("quick", [0, 2**20])
async def test_key_is_made_once_for_a_request(monkeypatch: pytest.MonkeyPatch, quick: int) -> None:
    made = []
    monkeypatch.setattr(fn, "_CONSUMER", ("counting", Counting()))
    monkeypatch.setattr(fn, "_QUICK_BYTES", quick)
    monkeypatch.setattr(replies, "request_key", lambda b: made.append(b) or b"key")
    await ask(fn.FunctionRunner(), tagged(), tagged())
    assert len(made) == 2


async def test_changed_tier_status_misses_the_cache() -> None:
    request = requests.consumer(0)
    changed = fnv1.RunFunctionRequest()
    changed.CopyFrom(request)
    tier = changed.required_resources["tier/modelplane-system/shared"].items[0].resource
    tier["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "Unavailable"}]
    assert request.meta.tag == changed.meta.tag
    runner = fn.FunctionRunner()
    before, after, back = await ask(runner, request, changed, request)
    assert [c.reason for c in before.conditions] == ["Wired"]
    assert "not ready" in after.conditions[0].message.lower()
    assert back == before


async def test_reply_expires_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, composer = 0.0, Counting(edge=100.0)
    monkeypatch.setattr(fn, "_CONSUMER", ("counting", composer))
    runner = fn.FunctionRunner(clock=lambda: now)
    seen = []
    for now in (50.0, 99.0, 100.0, 101.0, 500.0):  # noqa: B007
        (response,) = await ask(runner, tagged())
        seen.append((response.meta.ttl.seconds, composer.calls))
    assert seen == [(10, 1), (10, 1), (10, 1), (20, 2), (20, 2)]


async def test_bugs_and_fatals_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    composer = Counting()
    composer.answer = lambda: Answer(fatal="no")
    monkeypatch.setattr(fn, "_CONSUMER", ("counting", composer))
    await ask(fn.FunctionRunner(), tagged(), tagged())
    assert composer.calls == 2


async def test_both_service_versions_answer_equally() -> None:
    request = requests.tier(0)
    beta = fnv1beta1.RunFunctionRequest.FromString(request.SerializeToString())
    async with serving(fn.FunctionRunner()) as channel:
        new = await grpcv1.FunctionRunnerServiceStub(channel).RunFunction(request)
        old = await grpcv1beta1.FunctionRunnerServiceStub(channel).RunFunction(beta)
    assert new.desired.resources
    assert fnv1.RunFunctionResponse.FromString(old.SerializeToString()) == new


async def test_cached_reply_equals_the_composed_reply() -> None:
    for name, build in CASES.items():
        request = build()
        first, again = await ask(fn.FunctionRunner(), request, request)
        assert again == first == fn.FunctionRunner().run(request), name


async def test_malformed_request_is_an_invalid_argument() -> None:
    async with serving(fn.FunctionRunner()) as channel:
        method = "/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(method)(b"\x0a\xff\xff")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_replies_are_bounded_in_bytes() -> None:
    held = Replies()
    for number in range(300):
        held.put(b"%064d" % number, Reply(bytes(1024 * 1024), Counted()))
    assert 30 * 2**20 < held.held <= 32 * 2**20
    assert held.get(b"%064d" % 299, 0.0) is not None
    assert held.get(b"%064d" % 0, 0.0) is None
    held.put(b"%064d" % 299, Reply(b"new", Counted()))
    found = held.get(b"%064d" % 299, 0.0)
    assert found is not None and found.wire == b"new"


async def test_concurrent_calls_with_one_key_are_all_answered() -> None:
    request = requests.consumer(0)
    async with serving(fn.FunctionRunner()) as channel:
        stub = grpcv1.FunctionRunnerServiceStub(channel)
        answers = await asyncio.gather(*(stub.RunFunction(request) for _ in range(20)))
    assert all(answer == answers[0] for answer in answers)
