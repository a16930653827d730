"""The real function behind core, its answers remembered by request.

Documents of a world are never changed in place and equal ones are one object, so that a request is
known by the identities of its documents: ten thousand histories ask few questions twice.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf import struct_pb2 as structpb

from function.edge import structs
from function.edge.replies import Counted
from function.edge.request import Call
from function.fn import FunctionRunner
from tests.unit.composers.plane import restart

Document = dict[str, Any]

_MOST = 60_000  # documents and answers in memory


@dataclass(frozen=True)
class Selector:
    """What the function requires, as core looks it up. `namespace` None: of any."""

    name: str
    kind: str
    namespace: str | None
    resource: str
    labels: tuple[tuple[str, str], ...]

    def matches(self, document: Document) -> bool:
        metadata = document["metadata"]
        if document["kind"] != self.kind:
            return False
        if self.namespace is not None and self.namespace != metadata.get("namespace", ""):
            return False
        if self.resource:
            return bool(self.resource == metadata["name"])
        there = metadata.get("labels", {})
        return all(there.get(key) == value for key, value in self.labels)


@dataclass(frozen=True)
class Reply:
    """A response as core reads it. `bytes`: canonical, to compare two of one request."""

    desired: dict[str, tuple[Document, str]]
    conditions: tuple[tuple[str, str, str, str], ...]
    status: Document
    ready: str
    ttl: int
    requirements: tuple[Selector, ...]
    fatal: str
    context: bytes
    bytes: bytes


class Function:
    """A process of the function, and its memory of replies and documents over many histories.

    `checked`: the share of remembered replies that are computed anew, by a process that remembers
    nothing, and compared.
    """

    def __init__(self, checked: float = 0.0) -> None:
        self.now = 0.0
        self.runner = FunctionRunner(clock=lambda: self.now)
        # What it remembers is forgotten here as a whole: nobody has to weigh it.
        structs.settle = structs._call.asked.clear
        self.checked = checked
        self._luck = random.Random(0)  # not a world's: what happens in it depends on its seed alone
        self.calls = self.answered = 0
        self.forget()

    def forget(self) -> None:
        self._interned: dict[str, Document] = {}
        self._seen: dict[int, tuple[Document, Document]] = {}
        self._structs: dict[int, structpb.Struct] = {}
        self._replies: dict[tuple[Any, ...], tuple[float, Reply]] = {}
        self._derived: dict[tuple[Any, ...], Any] = {}

    def begin(self) -> None:
        """Before a history: keep the memory within its bounds."""
        if max(map(len, (self._seen, self._replies, self._derived))) > _MOST:
            self.forget()

    def intern(self, document: Document) -> Document:
        """Return the one object of this content."""
        seen = self._seen.get(id(document))
        if seen is None:  # both stay alive: an identity is not used again
            one = self._interned.setdefault(json.dumps(document, sort_keys=True), document)
            seen = self._seen[id(document)] = (document, one)
        return seen[1]

    def derived(self, make: Any, *parts: Any) -> Document:
        """Return `make()`, remembered by `parts`: interned documents (by identity) and texts."""
        key = (*(id(part) if isinstance(part, dict) else part for part in parts),)
        found = self._derived.get(key)
        if found is None:
            made = self.intern(make())
            # The parts stay alive with the entry: their identities are its key.
            found = self._derived[key] = (made, parts)
        document: Document = found[0]
        return document

    def ask(
        self,
        composite: Document,
        observed: Mapping[str, Document],
        required: Mapping[str, Sequence[Document]],
        desired: Mapping[str, Document],
        step_input: Document | None,
        context: bytes = b"",
        *,
        restarted: bool = False,
    ) -> Reply:
        """Answer one call. `restarted`: by a new process, whatever is remembered here."""
        key = (
            id(composite),
            tuple((k, id(v)) for k, v in sorted(observed.items())),
            tuple((k, tuple(map(id, v))) for k, v in sorted(required.items())),
            tuple((k, id(v)) for k, v in sorted(desired.items())),
            context,
        )
        self.answered += 1
        known = self._replies.get(key)
        if known is not None and self.now > known[0]:
            known = None  # it was valid until then
        if known is not None and not restarted and self._luck.random() >= self.checked:
            return known[1]
        if known is not None or restarted:
            restart()
        request = fnv1.RunFunctionRequest()
        request.observed.composite.resource.CopyFrom(self._struct(composite))
        request.context.MergeFromString(context)
        if step_input is not None:
            request.input.CopyFrom(self._struct(step_input))
        for name, document in observed.items():
            request.observed.resources[name].resource.CopyFrom(self._struct(document))
        for name, document in desired.items():
            request.desired.resources[name].resource.CopyFrom(self._struct(document))
        for name, documents in required.items():
            items = request.required_resources[name]
            items.SetInParent()
            for document in documents:
                items.items.add().resource.CopyFrom(self._struct(document))
        self.calls += 1
        call = Call(request, self.now)
        reply = self._read(self.runner._run(call, request, Counted()))
        if known is not None:
            assert reply.bytes == known[1].bytes, "the same request has two answers"
            return known[1]
        self._replies[key] = (call.valid_until, reply)
        return reply

    def _struct(self, document: Document) -> structpb.Struct:
        found = self._structs.get(id(document))
        if found is None:
            found = structpb.Struct.FromString(structs.encode(document))
            self._structs[id(document)] = found
        return found

    def _read(self, response: fnv1.RunFunctionResponse) -> Reply:
        resources = response.desired.resources
        fatal = [r.message for r in response.results if r.severity == fnv1.SEVERITY_FATAL]
        composite = structs.decode(response.desired.composite.resource)
        return Reply(
            desired={
                key: (
                    self.intern(structs.decode(resources[key].resource)),
                    fnv1.Ready.Name(resources[key].ready)[6:],
                )
                for key in sorted(resources)
            },
            conditions=tuple(
                (c.type, fnv1.Status.Name(c.status)[17:].title(), c.reason, c.message)
                for c in response.conditions
            ),
            status=self.intern(composite.get("status", {})),
            ready=fnv1.Ready.Name(response.desired.composite.ready)[6:],
            ttl=response.meta.ttl.seconds,
            requirements=tuple(
                _selector(name, selector)
                for name, selector in sorted(response.requirements.resources.items())
            ),
            fatal="; ".join(fatal),
            context=response.context.SerializeToString(deterministic=True),
            bytes=response.SerializeToString(deterministic=True),
        )


def _selector(name: str, given: fnv1.ResourceSelector) -> Selector:
    return Selector(
        name,
        given.kind,
        given.namespace if given.HasField("namespace") else None,
        given.match_name if given.HasField("match_name") else "",
        tuple(sorted(given.match_labels.labels.items())),
    )
