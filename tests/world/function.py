"""The real function behind core, its answers remembered by request.

Documents of a world are never changed in place and equal ones are one object, so that a request is
known by the identities of its documents: ten thousand histories ask few questions twice. A new
request is answered from these documents themselves; a share goes through protobuf, as core asks,
and must have the same answer.
"""

import gc
import hashlib
import random
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf import struct_pb2 as structpb

from function.edge import response, structs
from function.edge.replies import Counted
from function.edge.request import Call
from function.fn import FunctionRunner
from function.names import CONTEXT_ASKED
from tests.unit.composers.plane import new_process, restart
from tests.world.call import ASKED, Asked, Memory, PlainCall

Document = dict[str, Any]

_said = cache(response.said)
_READY = {None: "UNSPECIFIED", True: "TRUE", False: "FALSE"}
_MOST = 500_000  # documents and answers in memory: some 3 GB


@dataclass(frozen=True)
class Selector:
    """What the function requires, as core looks it up. `namespace` None: of any."""

    name: str
    kind: str
    namespace: str | None
    resource: str
    labels: tuple[tuple[str, str], ...]

    def matches(self, document: Document) -> bool:
        """Whether it selects a document of its kind."""
        metadata = document["metadata"]
        if self.namespace is not None and self.namespace != metadata.get("namespace", ""):
            return False
        if self.resource:
            return bool(self.resource == metadata["name"])
        there = metadata.get("labels", {})
        return all(there.get(key) == value for key, value in self.labels)


@dataclass(frozen=True)
class Reply:
    """A response as core reads it.

    `number`: what the function of this world knows it by. `since`, `until`: when it answers.
    """

    desired: dict[str, tuple[Document, str]]
    conditions: tuple[tuple[str, str, str, str], ...]
    status: Document
    ready: str
    ttl: int
    requirements: tuple[Selector, ...]
    fatal: str
    context: bytes
    number: int = field(default=0, compare=False)
    since: float = field(default=0.0, compare=False)
    until: float = field(default=0.0, compare=False)


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
        self._interned: dict[bytes, Document] = {}
        self._seen: dict[int, tuple[Document, Document]] = {}
        self._known = Memory()
        restart()  # what was derived from the documents goes with them
        self._replies: dict[tuple[Any, ...], Reply] = {}
        self._derived: dict[tuple[Any, ...], Any] = {}

    def begin(self) -> None:
        """Before a history: keep the memory within its bounds."""
        if max(map(len, (self._seen, self._replies, self._derived))) > _MOST:
            self.forget()
            gc.collect()

    def intern(self, document: Document) -> Document:
        """Return the one object of this content."""
        seen = self._seen.get(id(document))
        if seen is None:  # both stay alive: an identity is not used again
            bare = _unversioned(document)
            text = _text(bare)
            one = self._interned.get(text)
            if one is None:
                one = document if bare is document else _versioned(bare, text)
                self._interned[text] = one
            seen = self._seen[id(document)] = (document, one)
        return seen[1]

    def _made(self, document: Mapping[str, Any]) -> Document:
        """Return the one object of what the function made, as core would read it."""
        text = _text(document)
        one = self._interned.get(text)
        if one is None:
            one = self._interned[text] = orjson.loads(text)
            self._seen[id(one)] = (one, one)
        return one

    def derived(self, make: Any, *parts: Any) -> Document:
        """Return `make()`, remembered by `parts`: interned documents (by identity) and texts."""
        key = tuple([id(part) if type(part) is dict else part for part in parts])
        found = self._derived.get(key)
        if found is None:
            made = self.intern(make())
            # The parts stay alive with the entry: their identities are its key.
            found = self._derived[key] = (made, parts)
        document: Document = found[0]
        return document

    def ask(self, asked: Asked, *, restarted: bool = False) -> Reply:
        """Answer one call. `restarted`: by a new process, whatever is remembered here."""
        key = (
            id(asked.composite),
            tuple([(k, id(v)) for k, v in sorted(asked.observed.items())]),
            tuple([(k, *map(id, v)) for k, v in sorted(asked.required.items())]),
            tuple([(k, id(v)) for k, v in sorted(asked.desired.items())]),
            asked.context,
        )
        self.answered += 1
        known = self._replies.get(key)
        if known is not None and not known.since < self.now <= known.until:
            known = None
        if known is not None and not restarted and self._luck.random() >= self.checked:
            return known
        self.calls += 1
        if known is not None:
            with new_process():
                again = self._as_core(asked)
            assert again == known, f"the same request has two answers: {again} and {known}"
            return known
        with new_process() if restarted else nullcontext():
            reply = self._replies[key] = self._plainly(asked)
        return reply

    def _plainly(self, asked: Asked) -> Reply:
        """Answer from the documents themselves."""
        call = PlainCall(asked, self._known, self.now)
        answer = self.runner._answer(call, Counted())
        structs.settle()
        found = {key: (document, "UNSPECIFIED") for key, document in asked.desired.items()}
        for key, composed in answer.resources.items():
            found[key] = (self._made(composed.manifest), _READY[composed.ready])
        for key, manifest in answer.patched.items():
            found[key] = (self._made(manifest), found[key][1])
        for key in answer.removed:
            found.pop(key, None)
        return Reply(
            desired=dict(sorted(found.items())),
            conditions=tuple(
                (c.type, c.status, str(c.reason), _said(c.message)) for c in answer.conditions
            ),
            status=self._made(answer.status),
            ready=_READY[answer.ready],
            ttl=answer.ttl,
            requirements=tuple(
                Selector(name, it.kind, it.namespace, it.name, tuple(sorted(it.labels.items())))
                for name, it in sorted(answer.requirements.items())
            ),
            fatal=_said(answer.fatal),
            context=ASKED if answer.asks_for_more else asked.context,
            number=self.calls,
            since=call.valid_since,
            until=call.valid_until,
        )

    def _as_core(self, asked: Asked) -> Reply:
        """Answer a request of protobuf, as a call of core does."""
        request = fnv1.RunFunctionRequest()
        request.observed.composite.resource.CopyFrom(_struct(asked.composite))
        if asked.context:
            request.context.fields[CONTEXT_ASKED].bool_value = True
        if asked.step_input is not None:
            request.input.CopyFrom(_struct(asked.step_input))
        for name, document in asked.observed.items():
            request.observed.resources[name].resource.CopyFrom(_struct(document))
        for name, document in asked.desired.items():
            request.desired.resources[name].resource.CopyFrom(_struct(document))
        for name, documents in asked.required.items():
            items = request.required_resources[name]
            items.SetInParent()
            for document in documents:
                items.items.add().resource.CopyFrom(_struct(document))
        return self._read(self.runner._run(Call(request, self.now), request, Counted()))

    def _read(self, answered: fnv1.RunFunctionResponse) -> Reply:
        resources = answered.desired.resources
        fatal = [r.message for r in answered.results if r.severity == fnv1.SEVERITY_FATAL]
        composite = structs.decode(answered.desired.composite.resource)
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
                for c in answered.conditions
            ),
            status=self.intern(composite.get("status", {})),
            ready=fnv1.Ready.Name(answered.desired.composite.ready)[6:],
            ttl=answered.meta.ttl.seconds,
            requirements=tuple(
                _selector(name, selector)
                for name, selector in sorted(answered.requirements.resources.items())
            ),
            fatal="; ".join(fatal),
            context=ASKED if CONTEXT_ASKED in answered.context.fields else b"",
        )


def _unversioned(document: Document) -> Document:
    """Return a tier or an Object without its resourceVersion, anything else as it is."""
    metadata = document.get("metadata", {})
    if document.get("kind") not in ("KVOffloadTier", "Object") or "uid" not in metadata:
        return document
    kept = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return {**document, "metadata": kept}


def _versioned(bare: Document, text: bytes) -> Document:
    """Return a document with a resourceVersion that follows from its `text`."""
    version = hashlib.blake2b(text, digest_size=6).hexdigest()
    return {**bare, "metadata": {**bare["metadata"], "resourceVersion": version}}


def _text(document: Mapping[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def _struct(document: Document) -> structpb.Struct:
    return structpb.Struct.FromString(structs.encode(document))


def _selector(name: str, given: fnv1.ResourceSelector) -> Selector:
    return Selector(
        name,
        given.kind,
        given.namespace if given.HasField("namespace") else None,
        given.match_name if given.HasField("match_name") else "",
        tuple(sorted(given.match_labels.labels.items())),
    )
