"""Fuzzes whole composites: `python -m tests.fuzz.composites --runs 20000`.

The seeds are the calls that the render cases make, whole and with what later passes observe. A run
takes one of them and replaces values at random places of its documents: wrong types, huge numbers,
NULs, deep nesting, long text, missing keys, documents in another's place. Each run is named by its
seed alone.

A run fails when a call

- is fatal for a workload's sake, or for a bug of ours (a broken Input, and a composite of our own
  kinds, may be refused by a fatal);
- changes a resource in which nothing names a tier;
- leaves a composite that asks for a tier without the condition KVOffloadReady;
- answers the same request with other bytes;
- takes more CPU, or answers with more bytes, than its request accounts for.
"""

import argparse
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf import struct_pb2 as structpb
from google.protobuf.message import DecodeError

from function import names
from function.edge import structs
from function.fn import FunctionRunner
from function.kube import access
from kv_offload.render import conditions
from tests.fuzz.documents import places, put
from tests.render import engines, run
from tests.render.case import all_cases

Json = dict[str, Any]

RUNNER = FunctionRunner(clock=lambda: conditions.NOW)
FOREIGN = "foreign"
# What a response may have more than its request, and how long a call may compute.
FIXED_BYTES, TIMES_BYTES = 128 * 1024, 8
# Each rule and alert of a tier is labelled with its name and namespace, which API servers bound.
LABELLED = 40
# A busy machine takes three times as long, and a collection of the whole heap 0.2 s.
FIXED_SECONDS, SECONDS_PER_BYTE = 1.0, 60e-6

_DIGITS = "9" * 5000
_WORDS = (
    "", " ", "\0", "a\0b", "x", "é" * 40, "\u202e", "\uffff", "null", "true", "{}", "[]", "~", "=",
    "--", "$(A)", "${A:-", "`", "'", '"', "\n", "Off", "Required", "0x10", "1e999", "NaN", "-1",
    "/", "//", "..", "a/b/c", "modelplane-system/chat", "9" * 40 + "Gi", _DIGITS, "-" + _DIGITS,
    "1." * 2500, _DIGITS + "Gi", "v" + _DIGITS, "a" * 5000, "a-" * 2500, "{" * 5000, "[" * 5000,
    "x=" * 2500, "user:password@host/", "https://user:password@host/", names.KEY_PREFIX,
    names.ANNOTATION_TIER, names.ANNOTATION_RECORD, "999999999999.1.1", "0.0.0", "²", "٣",
)  # fmt: skip
_NUMBERS = (
    0, -1, 1, 0.5, 1e300, -1e300, 5e-324, float(2**53), float(2**63), math.inf, -math.inf, math.nan,
)  # fmt: skip
_ODD: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], [{}], [{}, {}], {"": None}, {"a": {"b": {"c": []}}},
    [1, "a", None, {}, []], {"name": []}, [{"name": {}}], {"\0": "\0"}, {"a" * 300: 1},
)  # fmt: skip


def nested(depth: int, node: Any = None) -> Any:
    """An object or list in another, so often; protobuf reads at most 100 messages in another."""
    for level in range(depth):
        node = {"a": node} if level % 2 else [node]
    return node


@cache
def seeds() -> tuple[bytes, ...]:
    """The calls that all render cases make, each once, in the order of the cases."""
    seen: dict[bytes, None] = {}

    class Recorder(FunctionRunner):
        async def RunFunction(self, req: fnv1.RunFunctionRequest, _: Any) -> Any:
            seen[req.SerializeToString(deterministic=True)] = None
            return self.run(req)

    ours, engines._runner = engines._runner, _recording(engines._runner, Recorder)
    try:
        for case in all_cases():
            for _ in run.render(case, engines.embedded):
                pass
    finally:
        engines._runner = ours
    return tuple(seen)


@cache
def weights() -> tuple[int, ...]:
    """How often each seed is chosen: most often one with workloads whose tier is looked up."""
    made = map(fnv1.RunFunctionRequest.FromString, seeds())
    return tuple(
        (8 if request.required_resources else 2) if request.desired.resources else 1
        for request in made
    )


def _recording(runner: Any, recorder: Any) -> Any:
    def of(name: str) -> Any:
        found = runner(name)
        return recorder(clock=found.clock) if isinstance(found, FunctionRunner) else found

    return of


class Mutation:
    """One request made from one seed number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        chosen = self.random.choices(seeds(), weights())[0]
        self.request = fnv1.RunFunctionRequest.FromString(chosen)
        request = self.request
        foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": FOREIGN}}
        _write(request.desired.resources[FOREIGN].resource, self.broken(foreign, 2))
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self.random.choice(_CHANGES)(self)

    # What is changed ------------------------------------------------------------------------

    def some_document(self) -> None:
        """Break a few places of one document."""
        found = list(self._documents())
        struct = self.random.choices([s for s, _ in found], [w for _, w in found])[0]
        _write(struct, self.broken(_read(struct), self.random.choice((1, 1, 2, 4, 8))))

    def a_well_known_field(self) -> None:
        """Replace a field that everything has, or give it to what has none."""
        found = list(self._documents())[:-1]
        struct = self.random.choices([s for s, _ in found], [w for _, w in found])[0]
        node = document = _read(struct)
        *above, last = self.random.choice(_WELL_KNOWN)
        if self.random.random() < 0.4 and isinstance(manifest := _manifest(document), dict):
            node = manifest
        for step in above:
            if not isinstance(node.get(step), dict):
                node[step] = {}
            node = node[step]
        node[last] = self.odd()
        _write(struct, document)

    def another_document(self) -> None:
        """Put one document, or a part of it, where another belongs."""
        found = [s for s, _ in self._documents()][:-1]
        to, taken = self.random.choice(found), _read(self.random.choice(found))
        here = _read(to)
        theirs = list(places(taken))
        if self.random.random() < 0.3 or not theirs or not here:
            _write(to, taken)
            return
        value: Any = taken
        for step in self.random.choice(theirs):
            value = value[step]
        put(here, self.random.choice(list(places(here))), deepcopy(value))
        _write(to, here)

    def a_required_answer(self) -> None:
        """Resolve a requirement to nothing, to one thing twice, to nonsense, or not at all."""
        required = self.request.required_resources
        if not required:
            return
        name = self.random.choice(sorted(required))
        match self.random.randrange(4):
            case 0:
                del required[name]
            case 1:
                del required[name].items[:]
            case 2:
                required[name].items.extend(list(required[name].items) * self.random.choice((1, 9)))
            case 3:
                _write(required[name].items.add().resource, self.odd_object())

    def an_observed_resource(self) -> None:
        """Observe something odd under a key of ours, or of a resource that is desired."""
        key = self.random.choice([*self.request.desired.resources, *_OUR_KEYS])
        document = self.odd_object() if self.random.random() < 0.5 else self.broken(_USAGE, 2)
        _write(self.request.observed.resources[key].resource, document)

    def a_desired_resource(self) -> None:
        """Let an earlier step desire a document under another key, or under one of ours."""
        resources = self.request.desired.resources
        key = self.random.choice((*_OUR_KEYS, "", "\0", "k" * 300, "é"))
        taken = self.random.choice(sorted(resources))
        resources[key].resource.CopyFrom(resources[taken].resource)
        if self.random.random() < 0.3:
            del resources[taken]

    # How ------------------------------------------------------------------------------------

    def broken(self, document: Any, times: int) -> Json:
        document = deepcopy(document)
        for _ in range(times):
            found = list(places(document))
            if not found:
                break
            at = self._place(found)
            match self.random.randrange(12):
                case 0:  # a missing key
                    node = document
                    for step in at[:-1]:
                        node = node[step]
                    del node[at[-1]]
                case 1:  # a key of another name
                    put(document, at, self.random.choice(_WORDS), rename=True)
                case 2:  # one item twice
                    node = document
                    for step in at[:-1]:
                        node = node[step]
                    if isinstance(node, list):
                        node.extend(deepcopy(node) * self.random.choice((1, 1, 20)))
                case _:
                    put(document, at, self.odd())
        return document

    def _place(self, found: list[Any]) -> Any:
        """A place; those near the top are few, and chosen as often as all the others."""
        near = [at for at in found if len(at) <= 3]
        return self.random.choice(near if near and self.random.random() < 0.4 else found)

    def odd(self) -> Any:
        kind = self.random.randrange(10)
        if kind < 5:
            return self.random.choice(_WORDS)
        if kind < 6:
            return self.random.choice(_NUMBERS)
        if kind < 7:
            return nested(self.random.choice((3, 10, 25)), self.random.choice(_WORDS))
        return deepcopy(self.random.choice(_ODD))

    def odd_object(self) -> Json:
        keys = ("apiVersion", "kind", "metadata", "spec", "status", "data", "")
        return {key: self.odd() for key in keys if self.random.random() < 0.7}

    def _documents(self) -> Iterator[tuple[structpb.Struct, int]]:
        """Every document of the request and how often it is chosen; the Input last."""
        request = self.request
        for key in sorted(request.desired.resources):
            yield request.desired.resources[key].resource, 6
        for key in sorted(request.observed.resources):
            yield request.observed.resources[key].resource, 3
        for name in sorted(request.required_resources):
            for item in request.required_resources[name].items:
                yield item.resource, 4
        for name in sorted(request.required_schemas):
            yield request.required_schemas[name].openapi_v3, 1
        yield request.observed.composite.resource, 4
        yield request.desired.composite.resource, 1
        yield request.input, 1


_CHANGES = (
    *(Mutation.some_document,) * 8,
    *(Mutation.a_well_known_field,) * 4,
    *(Mutation.another_document,) * 2,
    Mutation.a_required_answer,
    Mutation.an_observed_resource,
    Mutation.a_desired_resource,
)
_WELL_KNOWN = (
    ("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"),
    ("metadata", "labels"), ("metadata", "annotations"), ("metadata", "uid"), ("spec",),
    ("metadata", "annotations", names.ANNOTATION_RECORD), ("metadata", "deletionTimestamp"),
    ("metadata", "annotations", names.ANNOTATION_TIER), ("metadata", "generation"),
    ("spec", "providerConfigRef"), ("spec", "providerConfigRef", "name"), ("spec", "template"),
    ("spec", "forProvider"), ("spec", "forProvider", "manifest"), ("spec", "kvOffloadTierRef"),
    ("spec", "template", "metadata"), ("spec", "template", "metadata", "annotations"),
    ("spec", "template", "spec"), ("spec", "template", "spec", "containers"),
    ("status",), ("status", "conditions"), ("status", "closedNamespaces"), ("status", "pinned"),
    ("status", "agents"), ("status", "providerConfigRef"), ("status", "atProvider"),
    ("status", "atProvider", "manifest"), ("status", "atProvider", "manifest", "status"), ("data",),
)  # fmt: skip
_OUR_KEYS = ("usage-tier-0123456789", "kv-offload-files", "usage-fleet", "engine", "agents")
_USAGE: Json = {
    "apiVersion": "protection.crossplane.io/v1beta1",
    "kind": "Usage",
    "metadata": {
        "name": "u",
        "namespace": "team-a",
        "labels": {names.LABEL_USED_TIER: "x"},
        "annotations": {names.ANNOTATION_SHARES: '[["m","i"]]', names.ANNOTATION_CONSUMER: "{}"},
    },
    "spec": {
        "of": {"kind": "KVOffloadTier", "resourceRef": {"name": "chat"}},
        "by": {"kind": "Object", "resourceRef": {"name": "composed-engine"}},
        "reason": "r",
    },
}


def _manifest(document: Json) -> Any:
    return access.at(document, "spec", "forProvider", "manifest")


def _read(struct: structpb.Struct) -> Json:
    return deepcopy(structs.decode(struct))


def _write(struct: structpb.Struct, document: Json) -> None:
    struct.Clear()
    struct.update(document)


# The check ----------------------------------------------------------------------------------


def _bytes(message: Any) -> bytes:
    found: bytes = message.SerializeToString(deterministic=True)
    return found


def check(made: Mutation) -> str:
    """Answer the call and check the answer; a word on it, for the summary."""
    wire = _bytes(made.request)
    try:
        request = fnv1.RunFunctionRequest.FromString(wire)
    except DecodeError:
        return "no request"
    begun = time.thread_time()
    response = RUNNER.run(request)
    seconds = time.thread_time() - begun
    fatals = [r.message for r in response.results if r.severity == fnv1.SEVERITY_FATAL]
    said = {c.type: c for c in response.conditions}
    assert not [text for text in fatals if "has a bug" in text], fatals
    assert "InternalError" not in {c.reason for c in said.values()}, said
    assert _bytes(RUNNER.run(request)) == _bytes(response), "another answer to the same request"
    own = request.observed.composite.resource
    names_ = (str(structs.read(own, "metadata", field) or "") for field in ("name", "namespace"))
    most = FIXED_BYTES + TIMES_BYTES * len(wire) + LABELLED * sum(map(len, names_))
    assert response.ByteSize() <= most, response.ByteSize()
    limit = FIXED_SECONDS + SECONDS_PER_BYTE * len(wire)
    assert seconds <= limit, f"{seconds:.2f} s for {len(wire)} bytes"
    if fatals:
        refused = all(text.startswith("the pipeline step's input") for text in fatals)
        assert refused or _is_own(request), fatals
        return "fatal"
    changed = _changed_foreign(request, response)
    assert not changed, f"changed: {changed}"
    if _asks(request) and not _is_own(request):
        assert "KVOffloadReady" in said, "no condition"
    return str(next(iter(said.values())).reason) if said else "no condition"


def _is_own(request: fnv1.RunFunctionRequest) -> bool:
    fields = request.observed.composite.resource.fields
    return (
        fields["apiVersion"].string_value.startswith(f"{names.GROUP}/")
        and fields["kind"].string_value in ("KVOffloadTier", "InferenceCluster", "ModelDeployment")
    )  # fmt: skip


def _changed_foreign(
    request: fnv1.RunFunctionRequest, response: fnv1.RunFunctionResponse
) -> list[str]:
    """Keys of resources that name no tier and are not as an earlier step desired them."""
    mentioned = names.KEY_PREFIX.encode()
    everything = b"kvOffloadTierRef" in _bytes(request.observed.composite)
    found = []
    for key, desired in request.desired.resources.items():
        if mentioned in _bytes(desired) or (everything and key != FOREIGN):
            continue
        answered = response.desired.resources
        if key not in answered or _bytes(answered[key]) != _bytes(desired):
            found.append(key)
    return found


def _asks(request: fnv1.RunFunctionRequest) -> bool:
    """Whether a pod template of a desired Deployment in an Object names a tier."""
    for desired in request.desired.resources.values():
        path = ("spec", "forProvider", "manifest")
        kind = structs.read(desired.resource, "kind"), structs.read(desired.resource, *path, "kind")
        annotations = structs.read(
            desired.resource, *path, "spec", "template", "metadata", "annotations"
        )
        asked = annotations.get(names.ANNOTATION_TIER) if isinstance(annotations, dict) else None
        if kind == ("Object", "Deployment") and isinstance(asked, str):
            return True
    return False


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--runs", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0, help="the first run's")
    options.add_argument("--keep-going", action="store_true", help="count failures by kind")
    given = options.parse_args(arguments)
    counts: Counter[str] = Counter()
    begun, failed = time.monotonic(), 0
    for seed in range(given.seed, given.seed + given.runs):
        try:
            counts[check(Mutation(seed))] += 1
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}", file=sys.stderr)
            if not given.keep_going:
                raise
            failed += 1
    print(f"{given.runs} composites in {time.monotonic() - begun:.0f} s, {failed} failed")
    for name, count in sorted(counts.items()):
        print(f"  {count:6} {name}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
