"""Fuzzes whole calls: `python -m tests.fuzz.documents --runs 20000`.

Every document of a call is a stranger's: Objects, workloads, records, Usages, tiers, composites,
the step's Input. Each run breaks a few places of valid ones and sends them. Whatever comes: an
answer within the protocol, no bug of a composer, and none on a single workload.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function import names
from function.fn import FunctionRunner
from tests.corpus.corpus import CASES
from tests.unit.composers import documents as d
from tests.unit.composers.calls import observe, outcome

Json = dict[str, Any]
Place = tuple[str | int, ...]

ENGINE, SIBLING = "engine", "sibling"
REF = "modelplane-system/chat"

_LONG = "9" * 5000
_JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e300, float(2**63), "", "x", " ", "\0", "$(A)", "\ud7ff",
    "é" * 40, _LONG, "1." * 2000, "[" * 3000, "{" * 3000, "-" + _LONG, "/" * 300, "a/b/c", "Off",
    [], {}, [[]], [None], [{}], {"": None}, {"a": {"b": {"c": []}}}, [1, "a", None, {}],
    "9" * 40 + "Gi", "1e999", "0x10", "NaN", "=", "--", "--kv-transfer-config", "{}", "null",
)  # fmt: skip


@cache
def workloads() -> tuple[Json, ...]:
    """One workload of each shape of the corpus."""
    return tuple(deepcopy(case["workload"]) for case in CASES.values())


def places(node: Any, at: Place = ()) -> Iterator[Place]:
    """Every place of a document, the document itself aside."""
    items: Any = ()
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, list):
        items = enumerate(node)
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def put(node: Any, at: Place, value: Any, rename: bool = False) -> None:
    for key in at[:-1]:
        node = node[key]
    if rename and isinstance(node, dict):
        node[str(value)[:64] or "k"] = node.pop(at[-1])
    else:
        node[at[-1]] = value


class Maker:
    """Requests out of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def broken(self, document: Json, times: int) -> Json:
        """A document that no API server has seen, with any of its places broken."""
        document = deepcopy(document)
        for _ in range(times):
            found = list(places(document))
            if not found:
                return document
            put(document, self.random.choice(found), self.junk(), self.random.random() < 0.1)
        return document

    def stored(self, document: Json, times: int) -> Json:
        """One that an API server holds: its metadata are typed, and annotations are any text."""
        document = deepcopy(document)
        for part in ("spec", "status"):
            if part in document and self.random.random() < 0.8:
                document[part] = self.broken({"x": document[part]}, times).get("x")
        annotations = document["metadata"].get("annotations", {})
        if annotations and self.random.random() < 0.5:
            annotations[self.random.choice(sorted(annotations))] = str(self.junk())
        return document

    def junk(self) -> Any:
        return deepcopy(self.random.choice(_JUNK))

    def workload(self) -> Json:
        """An Object with a workload, or a bare one, that mostly asks for the tier."""
        if self.random.random() < 0.4:
            return d.engine()
        manifest = deepcopy(self.random.choice(workloads()))
        return {**d.engine(), "spec": {**d.engine()["spec"], "forProvider": {"manifest": manifest}}}

    def record(self, text: str) -> str:
        """A record, broken as JSON or as text."""
        if self.random.random() < 0.5:
            return json.dumps(self.broken(json.loads(text), self.random.randint(1, 3)))
        at = self.random.randrange(len(text))
        return text[:at] + str(self.junk()) + text[at + self.random.randint(0, 9) :]


def request(maker: Maker) -> tuple[fnv1.RunFunctionRequest, str]:
    """A call with some of its documents broken, and which they are."""
    what = maker.random.choice(_WHAT)
    times = maker.random.randint(1, 4)
    composite = d.replica()
    if maker.random.random() < 0.3:
        composite["spec"]["kvOffloadTierRef"] = {"name": "chat", "policy": "Optional"}
    desired = {ENGINE: maker.workload(), SIBLING: d.engine(args=[d.MODEL, "--seed", "1"])}
    backend = maker.random.choice(({}, _MOONCAKE, _INSIDE))
    required = d.requirements(d.ready_tier(**backend))
    step_input = {"apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1", "kind": "Input"}
    observed: dict[str, Json] = {}
    if maker.random.random() < 0.5 or what in ("record", "observed"):
        observed = deepcopy(observe(_answer(composite, {}, desired, {}, required)))
    match what:
        case "record":
            for document in observed.values():
                annotations = document.get("metadata", {}).get("annotations", {})
                if names.ANNOTATION_RECORD in annotations:
                    annotations[names.ANNOTATION_RECORD] = maker.record(
                        annotations[names.ANNOTATION_RECORD]
                    )
            if maker.random.random() < 0.5:
                required = d.requirements()
        case "observed":
            observed = {k: maker.stored(v, times) for k, v in observed.items()}
        case "engine":
            desired[ENGINE] = maker.broken(desired[ENGINE], times)
        case "composite":
            composite = maker.stored(composite, times)
        case "input":
            step_input = maker.broken({**step_input, **_INPUT}, times)
        case "tier":
            tier = maker.stored(d.ready_tier(**backend), times)
            required[f"tier/{REF}"] = [tier]
        case "users":
            usage = deepcopy(_USAGE)  # its own CRD has seen to the spec
            usage["metadata"]["annotations"][names.ANNOTATION_SHARES] = maker.record(_SHARES)
            composite = d.tier(**backend)
            required = {"cluster": [d.cluster()], "usages": [usage]}
        case "own":
            composite = maker.stored(d.tier(**backend), times)
            required = {"cluster": [d.cluster()], "usages": [_USAGE]}
    return _request(composite, step_input, desired, observed, required), what


_WHAT = ("engine",) * 6 + ("record",) * 3 + (
    "observed", "observed", "composite", "input", "tier", "tier", "users", "own", "own"
)  # fmt: skip
_MOONCAKE: Json = {"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}}
_INSIDE: Json = {"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 4}}}
_INPUT: Json = {
    "engineImages": {"serve": {"engine": "vLLM", "entrypoint": ["vllm", "serve"]}},
    "paths": [{"kind": "Deployment", "path": "spec.template"}],
    "container": "engine",
}
_SHARES = f'[["{d.MODEL}","i"]]'
_USAGE: Json = {
    "apiVersion": "protection.crossplane.io/v1beta1",
    "kind": "Usage",
    "metadata": {
        "name": "u",
        "namespace": "team-b",
        "annotations": {names.ANNOTATION_USED_TIER: REF, names.ANNOTATION_SHARES: _SHARES},
    },
    "spec": {"by": {"kind": "ModelReplica", "resourceRef": {"name": "other"}}},
}


def _request(
    composite: Json, step_input: Json, desired: Json, observed: Json, required: Any
) -> fnv1.RunFunctionRequest:
    made = fnv1.RunFunctionRequest()
    made.observed.composite.resource.CopyFrom(resource.dict_to_struct(composite))
    made.input.CopyFrom(resource.dict_to_struct(step_input))
    for key, document in desired.items():
        made.desired.resources[key].resource.CopyFrom(resource.dict_to_struct(document))
    for key, document in observed.items():
        made.observed.resources[key].resource.CopyFrom(resource.dict_to_struct(document))
    for name, documents in required.items():
        items = made.required_resources[name]
        items.SetInParent()
        for document in documents:
            items.items.add().resource.CopyFrom(resource.dict_to_struct(document))
    return made


RUNNER = FunctionRunner()


def _answer(*parts: Any) -> Any:
    return outcome(RUNNER.run(_request(*parts)))


def check(made: fnv1.RunFunctionRequest, what: str) -> str:
    """One call; the reason of its condition, for the summary."""
    got = outcome(RUNNER.run(made))
    assert not [text for text in got.fatals if "has a bug" in text], got.fatals
    reason = got.conditions.get("KVOffloadReady", ("", ""))[1]
    assert reason != "InternalError", got.messages
    assert not any("InternalError" in text or "has a bug" in text for text in got.messages.values())
    if what == "engine" and not got.fatals:
        sibling = got.desired.get(SIBLING)
        assert sibling is None or sibling["kind"] == "Object"
    return reason or next(iter(got.conditions.values()), ("", "none"))[1]


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=0, help="stop after so long, 0: never")
    given = options.parse_args(arguments)
    counts: Counter[str] = Counter()
    begun = time.monotonic()
    for run in range(given.runs):
        if given.seconds and time.monotonic() - begun > given.seconds:
            break
        seed = given.seed + run
        made, what = request(Maker(seed))
        try:
            counts[f"{what}: {check(made, what)}"] += 1
        except Exception:
            print(f"seed {seed} ({what})", file=sys.stderr)
            raise
    print(f"{sum(counts.values())} calls in {time.monotonic() - begun:.0f} s")
    for name, count in sorted(counts.items()):
        print(f"  {count:6} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
