"""What Kubernetes does to `command`, `args` and env before any program sees them.

`$(VAR)` is replaced by the variable's value, `$$` by one `$`; an unknown `$(VAR)` stays as it is
(k8s.io/kubernetes/third_party/forked/golang/expansion). The pod's env, its envFrom and the Service
links count as variables; those of the image do not.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from function.command.text import LITERAL, Text, TextBuilder

# Field references whose text can hold nothing that a shell would act on.
_INERT_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
# Set by LeaderWorkerSet's webhook on pods: plain characters, and never in the template.
_INJECTED = frozenset({"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# What may stand around such texts and leaves the whole as harmless.
_PLAIN = re.compile(rb"[A-Za-z0-9._:/-]*\Z")
_SERVICE_LINK = re.compile(r"[A-Z][A-Z0-9_]*_(SERVICE_(HOST|PORT\w*)|PORT\w*)\Z")


@dataclass(frozen=True)
class Env:
    """A container's env: literal values, and the kind of the others.

    `unknown`: {name: what gives its value}; `inert`: those of them that hold only plain characters
    (pod IP, node name, a resource's number). `env_from`: any other name may be defined too.
    """

    literal: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    inert: frozenset[str] = frozenset()
    env_from: bool = False

    def pasted(self, name: str) -> bool:
        """Whether `$(name)` may be replaced by a text that is not known here."""
        if name in self.unknown:
            return True
        if name in self.literal or not _IDENTIFIER.match(name):
            return False
        return (
            name in _INJECTED
            or bool(_SERVICE_LINK.match(name))
            or (self.env_from and name.isupper())
        )

    def is_inert(self, name: str) -> bool:
        return name in self.inert or (name in _INJECTED and name not in self.unknown)


def read_env(container: Mapping[str, Any]) -> Env:
    """The env of a core/v1 Container. Values are expanded as Kubernetes does, in order."""
    literal: dict[str, str] = {}
    unknown: dict[str, str] = {}
    inert: set[str] = set()
    env_from = bool(container.get("envFrom"))
    entries = container.get("env")
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            continue
        for known in (literal, unknown):
            known.pop(name, None)
        inert.discard(name)
        source = entry.get("valueFrom")
        if source:
            kind = next(iter(source), "valueFrom") if isinstance(source, Mapping) else "valueFrom"
            unknown[name] = str(kind)
            if _is_inert(source):
                inert.add(name)
            continue
        value = entry.get("value")
        value = "" if value is None else str(value)
        if not is_text(value):
            unknown[name] = "no text"
            continue
        text = expand(value, Env(literal, unknown, frozenset(inert), env_from))
        if text.opaque:
            unknown[name] = "an unknown $(VAR)"
            if _is_plain(text):
                inert.add(name)
        else:
            literal[name] = text.decode()
    return Env(literal, unknown, frozenset(inert), env_from)


def _is_plain(text: Text) -> bool:
    """Whether a text that is known in part holds only plain characters.

    So does Modelplane's `MODELPLANE_LEADER_ADDRESS: $(LWS_LEADER_ADDRESS)`.
    """
    around, at = b"", 0
    for hidden in text.opaque:
        around += text.data[at : hidden.start]
        at = hidden.end
    return all(o.inert for o in text.opaque) and bool(_PLAIN.match(around + text.data[at:]))


def _is_inert(source: Any) -> bool:
    if not isinstance(source, Mapping):
        return False
    if source.get("resourceFieldRef"):
        return True
    ref = source.get("fieldRef")
    return isinstance(ref, Mapping) and ref.get("fieldPath") in _INERT_FIELDS


def expand(raw: str, env: Env) -> Text:
    """`raw` as the started program receives it, with the way back to raw offsets.

    A variable whose value is not known stands as `${NAME}`, marked opaque.
    """
    out = TextBuilder(raw)
    data = out.raw
    at = 0
    while at < len(data):
        dollar = data.find(b"$", at)
        stop = len(data) if dollar < 0 else dollar
        if stop > at:
            out.unit(data[at:stop], at, stop, LITERAL)
            at = stop
            continue
        if data[at : at + 2] == b"$$":
            out.unit(b"$", at, at + 2, LITERAL)
            at += 2
            continue
        close = data.find(b")", at) if data[at : at + 2] == b"$(" else -1
        if close < 0:
            out.unit(data[at : at + 1], at, at + 1, LITERAL)
            at += 1
            continue
        name = data[at + 2 : close].decode("utf-8", "replace")
        if name in env.literal:
            value = env.literal[name].encode()
            out.fixed(value, at, close + 1, LITERAL)
            at = close + 1
        elif env.pasted(name):
            out.opaque(name, at, close + 1, LITERAL, inert=env.is_inert(name))
            at = close + 1
        else:
            # Not a variable: the text stays, and may be the shell's own substitution.
            out.unit(data[at : at + 2], at, at + 2, LITERAL)
            at += 2
    return out.build()


def is_text(value: str) -> bool:
    """Whether a value can be passed to a program: no NUL, and encodable (no lone surrogate)."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def escape(value: str) -> str:
    """The text that Kubernetes expands to exactly `value`."""
    return value.replace("$", "$$") if "$(" in value or "$$" in value else value
