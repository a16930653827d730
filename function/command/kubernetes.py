"""What Kubernetes does to `command`, `args` and env before any program sees them.

`$(VAR)` is replaced by the variable's value, `$$` by one `$`; an unknown `$(VAR)` stays as it is,
whatever stands in it up to its first `)` (k8s.io/kubernetes/third_party/forked/golang/expansion).
The pod's env, its envFrom and the Service links count as variables; those of the image do not.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from function.command.budget import Budget
from function.command.text import LITERAL, Text, TextBuilder

# Field references whose text can hold nothing that a shell would act on.
_INERT_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid)|spec\.(nodeName|serviceAccountName)|status\.(host|pod)IPs?"
)
# Set by LeaderWorkerSet's webhook on pods: plain characters, and never in the template.
_INJECTED = frozenset({"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# What may stand around such texts and leaves the whole as harmless.
_PLAIN = re.compile(rb"[A-Za-z0-9._:/-]*\Z")
# The first _PORT decides, so no later one is tried: a name of many would cost its square.
_SERVICE_LINK = re.compile(r"[A-Z](?:(?>[A-Z0-9_]*?_PORT)\w*+|[A-Z0-9_]*_SERVICE_HOST)\Z")


@dataclass
class Env:
    """A container's env: literal values, and the kind of the others.

    `unknown`: {name: what gives its value}; `inert`: those of them that hold only plain characters
    (pod IP, node name, a resource's number). `env_from`: any other name may be defined too.
    """

    literal: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    inert: set[str] = field(default_factory=set)
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


def read_env(container: Mapping[str, Any], budget: Budget) -> Env:
    """Return the env of a core/v1 Container, expanded in order as Kubernetes does.

    Raises OverBudget, for a value longer than a program can be given too.
    """
    # Grows with the entries: each value sees those that stand before it.
    env = Env(env_from=bool(container.get("envFrom")))
    literal, unknown, inert = env.literal, env.unknown, env.inert
    entries = container.get("env")
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            continue
        value = _value(entry.get("value"))
        text = None if value is None else expand(value, env, budget, f"env {name[:80]}")
        for known in (literal, unknown):
            known.pop(name, None)
        inert.discard(name)
        source = entry.get("valueFrom")
        if source:
            kind = next(iter(source), None) if isinstance(source, Mapping) else None
            unknown[name] = kind if isinstance(kind, str) else "valueFrom"
            if _is_inert(source):
                inert.add(name)
        elif text is None:
            unknown[name] = "no text"
        elif text.opaque:
            unknown[name] = "an unknown $(VAR)"
            if _is_plain(text):
                inert.add(name)
        else:
            literal[name] = text.decode()
    return env


def _value(value: Any) -> str | None:
    """Return the text of an env value, None where it is no text that a program can get."""
    if value is None:
        return ""
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 64):
        return str(value)
    return value if isinstance(value, str) and is_text(value) else None


def _is_plain(text: Text) -> bool:
    """Whether a text that is known in part holds only plain characters.

    So does Modelplane's `MODELPLANE_LEADER_ADDRESS: $(LWS_LEADER_ADDRESS)`.
    """
    around, at = [], 0
    for hidden in text.opaque:
        around.append(text.data[at : hidden.start])
        at = hidden.end
    around.append(text.data[at:])
    return all(o.inert for o in text.opaque) and bool(_PLAIN.match(b"".join(around)))


def _is_inert(source: Any) -> bool:
    if not isinstance(source, Mapping):
        return False
    if source.get("resourceFieldRef"):
        return True
    ref = source.get("fieldRef")
    return isinstance(ref, Mapping) and bool(_INERT_FIELDS.fullmatch(str(ref.get("fieldPath"))))


def charge(raw: str, budget: Budget, what: str) -> None:
    """Charge an argument or a value as it is given. Raise OverBudget, with `what` it is."""
    size = len(raw.encode())
    budget.charge("given", size)
    budget.argument(size, what)


def expand(raw: str, env: Env, budget: Budget, what: str = "an argument") -> Text:
    """`raw` as the started program receives it, with the way back to raw offsets.

    A variable whose value is not known stands as `${NAME}`, marked opaque. Raises OverBudget;
    `what` it is is for the message.
    """
    charge(raw, budget, what)
    out = TextBuilder(raw)
    data = out.raw
    at, last = 0, data.rfind(b")")
    while (begin := data.find(b"$", at)) >= 0:
        budget.step()
        out.unit(data[at:begin], at, begin, LITERAL)
        if data.startswith(b"$$", begin):
            at = begin + 2
            out.unit(b"$", begin, at, LITERAL)
        elif data.startswith(b"$(", begin) and begin < last:
            at = data.find(b")", begin) + 1
            name = data[begin + 2 : at - 1].decode("utf-8", "replace")
            if name in env.literal:
                value = env.literal[name].encode()
                budget.charge("expanded", len(value))
                out.fixed(value, begin, at, LITERAL)
                budget.argument(len(out), what)
            elif env.pasted(name):
                out.opaque(name, begin, at, LITERAL, inert=env.is_inert(name))
            else:
                # No variable: all of it stays as it is, for a shell to substitute.
                out.unit(data[begin:at], begin, at, LITERAL)
        else:
            at = begin + 1
            out.unit(b"$", begin, at, LITERAL)
    out.unit(data[at:], at, len(data), LITERAL)
    return out.build()


def is_text(value: str) -> bool:
    """Whether a value can be passed to a program: no NUL, and encodable (no lone surrogate)."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def escape(value: str) -> str:
    """Return the text that Kubernetes expands to exactly `value`."""
    return value.replace("$", "$$") if "$(" in value or "$$" in value else value
