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
from typing import Any

import grpc
from cachetools import LRUCache
from crossplane.function import logging
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1

from function.api.input import Input
from function.backends.registry import BACKENDS, Registry
from function.composers import cluster, deployment, deployment_report, tier
from function.composers.consumer import composer as consumer
from function.composers.step_input import BadInput, read_input
from function.edge import metrics, response
from function.edge.answer import TTL_UNRESPONSIVE, Answer
from function.edge.request import Call
from function.names import GROUP

# The interpreter runs one at a time; a second lets short calls overtake a long one.
THREADS = 4
# What may be answered on the event loop, once it was seen to be so quick.
QUICK_SECONDS = 0.02
_TAG = 64

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
_CONSUMER: tuple[str, Composer] = ("consumer", consumer.compose)


class FunctionRunner(grpcv1.FunctionRunnerServiceServicer):
    """Runs RunFunctionRequests; holds nothing between calls but bounded memos.

    Composing is plain computing and would hold the event loop: it goes on in a few threads beside,
    so that health, other composites' calls and SIGTERM are answered meanwhile. A request that was
    seen before and was quick is answered at once: the way through a thread would cost more.
    """

    def __init__(
        self,
        backends: Registry = BACKENDS,
        clock: Callable[[], float] = time.time,
        *,
        verbose: bool = False,
    ) -> None:
        """`clock`: seconds since 1970; it decides when a start has taken too long, and no more.
        `verbose`: what every call decided is logged.
        """
        self.backends = backends
        self.clock = clock
        self.verbose = verbose
        self.log = logging.get_logger()
        self._threads = ThreadPoolExecutor(THREADS, "compose")
        self._quick: LRUCache[str, bool] = LRUCache(4096)

    async def RunFunction(
        self, req: fnv1.RunFunctionRequest, _: Context | None
    ) -> fnv1.RunFunctionResponse:
        tag = req.meta.tag[:_TAG]  # core's digest of the request
        if tag and tag in self._quick:
            return self.run(req)
        loop, started = asyncio.get_running_loop(), time.perf_counter()
        response = await loop.run_in_executor(self._threads, self.run, req)
        if time.perf_counter() - started < QUICK_SECONDS:
            self._quick[tag] = True
        return response

    def run(self, req: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        """One call, whatever it holds: never raises."""
        started = time.perf_counter()
        name, outcome = "dispatch", "ok"
        call = Call(req, self.clock())
        try:
            step_input = read_input(call)
            name, composer = _dispatch(call, step_input)
            answer = composer(call, step_input, self.backends)
            if call.is_unresponsive:
                answer.ttl = min(answer.ttl, TTL_UNRESPONSIVE)
            for reason in answer.refusals:
                metrics.REFUSALS.labels(reason).inc()
            for text in answer.bugs:
                self.log.error("A workload failed", composite=call.name, traceback=text)
            outcome = "fatal" if answer.fatal else "bug" if answer.bugs else "ok"
            if self.verbose:
                self.log.debug("Answered", composer=name, **_decided(call, answer))
            return response.write(req, answer)
        except BadInput as bad:
            outcome = "fatal"
            return response.fatal(req, str(bad))
        except Exception as bug:
            outcome = "bug"
            # Not log.exception: the SDK's log would print every local, the whole request with them.
            self.log.error(
                "A composer failed",
                composer=name,
                composite=call.name,
                tag=req.meta.tag,
                traceback=traceback.format_exc(),
            )
            return response.fatal(
                req,
                f"function-kv-offload has a bug in its composer {name!r}"
                f" ({type(bug).__name__}: {bug}); everything that runs is kept. The traceback is in"
                " the function's log: please report it.",
            )
        finally:
            metrics.CALLS.labels(name, outcome).inc()
            metrics.LATENCY.labels(name).observe(time.perf_counter() - started)


def _decided(call: Call, answer: Answer) -> dict[str, Any]:
    """What a call came to, for a log: keys and conditions, and nothing that anybody wrote."""
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
