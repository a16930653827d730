"""RunFunction: a request in, the right composer, a response out.

One function serves several kinds. It dispatches on the observed composite's group and kind and on
the Input's `mode`. No exception ever reaches Crossplane as UNKNOWN: a broken Input becomes one
fatal with every problem in it, and a bug becomes a fatal that names the composer and keeps its
traceback in the log. A fatal keeps everything that runs.
"""

import asyncio
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

import grpc
from crossplane.function import logging
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1
from google.protobuf.message import DecodeError

from function.api.input import Input
from function.backends.registry import BACKENDS, Registry
from function.command import budget
from function.composers import cluster, deployment, deployment_report, tier, unlisted
from function.composers.consumer import composer as consumer
from function.composers.step_input import BadInput, read_input
from function.edge import metrics, replies, response, structs
from function.edge.answer import (
    TTL_TIMED,
    TTL_UNRESPONSIVE,
    TTL_WATCHED,
    TTL_WITH_REQUIREMENTS,
    Answer,
)
from function.edge.replies import Counted, Replies, Reply
from function.edge.request import Call
from function.edge.shares import Shares
from function.kube import errors
from function.names import GROUP

# The interpreter runs one at a time; the others let short calls overtake long ones. One long call
# runs at a time, and the rest of them wait (command/budget.py).
THREADS = 16
# Of them, for the composites of one namespace: with two, its neighbours wait twice as long.
THREADS_OF_NAMESPACE = 1
# What of a request may be parsed on the event loop: about a millisecond.
_QUICK_BYTES = 256 * 1024

_WHOSE = ("namespace", "name")

Composer = Callable[[Call, Input, Registry], Answer]
# What gRPC knows of the call: nothing here looks at it, and a local render has none.
Context = grpc.aio.ServicerContext[Any, Any]

# (kind of the group modelplane.ai, mode or None for any) -> composer; all else is a consumer.
_COMPOSERS: dict[tuple[str, str | None], tuple[str, Composer]] = {
    ("KVOffloadTier", None): ("tier", tier.compose),
    ("InferenceCluster", "Compose"): ("cluster", cluster.compose),
    ("InferenceCluster", None): ("cluster-report", cluster.report),
    ("ModelDeployment", "Compose"): ("deployment", deployment.compose),
    ("ModelDeployment", None): ("deployment-report", deployment_report.compose),
}
_TOO_DEEP = (
    "function-kv-offload reads documents of up to 400 levels, and one that it has to read nests"
    " deeper; everything that runs is kept. No Kubernetes resource needs as many."
)
_CONSUMER: tuple[str, Composer] = ("consumer", consumer.compose)


class FunctionRunner(grpcv1.FunctionRunnerServiceServicer):
    """Runs RunFunctionRequests; holds nothing between calls but bounded memos.

    Composing is plain computing and would hold the event loop. It runs in a few threads, so that
    health, other composites' calls and SIGTERM are answered meanwhile. A request that was answered
    before gets the same reply from memory.
    """

    def __init__(
        self,
        backends: Registry = BACKENDS,
        clock: Callable[[], float] = time.time,
        *,
        verbose: bool = False,
    ) -> None:
        """`clock`: seconds since 1970, for start-up time-outs. `verbose`: log every decision."""
        structs.allow_depth()
        self.backends = backends
        self.clock = clock
        self.verbose = verbose
        self.log = logging.get_logger()
        self._threads = ThreadPoolExecutor(THREADS, "compose")
        # Its own: who asks is known when a request is parsed.
        self._parsers = ThreadPoolExecutor(1, "parse")
        self._shares = Shares(THREADS_OF_NAMESPACE)
        self._replies = Replies()

    async def RunFunction(
        self, req: fnv1.RunFunctionRequest, _: Context | None
    ) -> fnv1.RunFunctionResponse:
        """Answer a parsed request, without the memory of replies."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.run, req)

    async def run_serialized(self, wire: bytes, context: Context) -> bytes:
        """Answer a request as it came on the wire, from memory where that is valid."""
        started = time.perf_counter()
        untagged = replies.untagged(wire)
        try:
            # A key of many bytes is made in a thread.
            key = replies.request_key(untagged) if len(untagged) <= _QUICK_BYTES else None
            reply = self._replies.get(key, self.clock()) if key else None
            if reply is None:
                reply = await self._compose(wire, untagged, key)
        except DecodeError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a request: {error}")
        _count(reply.counted, started)
        return reply.wire

    async def _compose(self, wire: bytes, untagged: bytes, key: bytes | None) -> Reply:
        """Answer in a thread, when one of the namespace's is free; stop when the client goes.

        `key`: what names the request, None where the thread is to make it of `untagged`.
        """
        loop, gone = asyncio.get_running_loop(), Event()
        try:
            req = await loop.run_in_executor(
                self._parsers, fnv1.RunFunctionRequest.FromString, wire
            )
            async with self._shares.of(_namespace(req)):
                serve = partial(self._serve, req, untagged, key, gone)
                return await loop.run_in_executor(self._threads, serve)
        except asyncio.CancelledError:
            gone.set()
            raise

    def _serve(
        self, req: fnv1.RunFunctionRequest, untagged: bytes, key: bytes | None, gone: Event
    ) -> Reply:
        if key is None:
            key = replies.request_key(untagged)
            if reply := self._replies.get(key, self.clock()):
                return reply
        reply = self._reply(req, gone)
        if key and reply.counted.outcome == "ok":
            self._replies.put(key, reply)
        return reply

    def run(self, req: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        """Answer one call, whatever it holds. Never raises."""
        started = time.perf_counter()
        counted = Counted()
        try:
            return self._run(Call(req, self.clock()), req, counted)
        finally:
            _count(counted, started)

    def _reply(self, req: fnv1.RunFunctionRequest, gone: Event) -> Reply:
        call, counted = Call(req, self.clock()), Counted()
        wire = self._run(call, req, counted, gone).SerializeToString()
        return Reply(wire, counted, call.valid_until)

    def _run(
        self, call: Call, req: fnv1.RunFunctionRequest, counted: Counted, gone: Event | None = None
    ) -> fnv1.RunFunctionResponse:
        try:
            return response.write(req, self._answer(call, counted, gone))
        except BadInput as bad:
            counted.outcome = "fatal"
            return response.fatal(req, str(bad))
        except RecursionError:
            counted.outcome = "fatal"
            return response.fatal(req, _TOO_DEEP)
        except Exception as bug:
            counted.outcome = "bug"
            # Not log.exception: the SDK's log would print every local, the whole request with them.
            self.log.error(
                "A composer failed",
                composer=counted.composer,
                composite=call.name,
                tag=req.meta.tag,
                traceback=traceback.format_exc(),
            )
            # Core gives its condition Synced the time of its text, and consumers read that.
            said = errors.without_differences(str(bug))
            return response.fatal(
                req,
                f"function-kv-offload has a bug in its composer {counted.composer!r}"
                f" ({type(bug).__name__}: {said}); everything that runs is kept. The traceback is"
                " in the function's log: please report it.",
            )
        finally:
            structs.settle()

    def _answer(self, call: Call, counted: Counted, gone: Event | None = None) -> Answer:
        step_input = read_input(call)
        counted.composer, composer = _dispatch(call, step_input)
        lost = unlisted.requirements(call)
        for name in lost:
            call.observe_required(name)
        with budget.of_call(gone):
            answer = composer(call, step_input, self.backends)
        answer.requirements = answer.requirements | lost
        answer.resources = unlisted.usages(call) | answer.resources if lost else answer.resources
        _keep_taken(call, answer)
        answer.asks_for_more = call.lacks(answer.requirements)
        if answer.ttl == TTL_WITH_REQUIREMENTS and call.is_watched(answer.requirements):
            answer.ttl = TTL_WATCHED
        if answer.ttl > TTL_TIMED and call.changes_within(answer.ttl):
            answer.ttl = TTL_TIMED
        if call.is_unresponsive:
            answer.ttl = min(answer.ttl, TTL_UNRESPONSIVE)
        counted.refusals = tuple(answer.refusals)
        for text in answer.bugs:
            self.log.error("A workload failed", composite=call.name, traceback=text)
        counted.outcome = "fatal" if answer.fatal else "bug" if answer.bugs else "ok"
        if self.verbose:
            self.log.debug("Answered", composer=counted.composer, **_decided(call, answer))
        return answer


def _keep_taken(call: Call, answer: Answer) -> None:
    """Keep what an earlier step desires under a key of ours, and say so in the first condition."""
    taken = [key for key, ours in answer.resources.items() if call.is_taken(key, ours.manifest)]
    for key in taken:
        del answer.resources[key]
    for condition in answer.conditions[: bool(taken)]:
        text = f"{condition.message} {response.taken(taken)}".strip()
        answer.conditions[0] = replace(condition, message=text)


def _namespace(req: fnv1.RunFunctionRequest) -> str:
    """Return whose call it is: the composite's namespace, its name where it has none."""
    metadata = (structs.read(req.observed.composite.resource, "metadata", name) for name in _WHOSE)
    return str(next(filter(None, metadata), ""))


def _count(counted: Counted, started: float) -> None:
    for reason in counted.refusals:
        metrics.REFUSALS.labels(reason).inc()
    metrics.CALLS.labels(counted.composer, counted.outcome).inc()
    metrics.LATENCY.labels(counted.composer).observe(time.perf_counter() - started)


def _decided(call: Call, answer: Answer) -> dict[str, Any]:
    """Return what a call decided, for a log: keys and conditions, no user's text."""
    desired = ({*call.desired_keys()} | answer.resources.keys()) - answer.removed
    return {
        "composite": call.name,
        "desired": sorted(desired),
        "dropped": sorted({*call.observed_keys()} - desired),
        "conditions": [f"{c.type}={c.status} {c.reason}" for c in answer.conditions],
        "unresolved": [name for name in answer.requirements if call.required(name) is None],
        "fatal": bool(answer.fatal),
        "ttl": answer.ttl,
    }


def _dispatch(call: Call, step_input: Input) -> tuple[str, Composer]:
    group = str(call.composite_value("apiVersion") or "").partition("/")[0]
    if group != GROUP:
        return _CONSUMER
    kind = str(call.composite_value("kind") or "")
    return _COMPOSERS.get((kind, step_input.mode)) or _COMPOSERS.get((kind, None)) or _CONSUMER
