"""CacheIdentityConflict: two consumers whose blocks a tier could not tell apart.

LMCache's own key holds the chunk's hash and the model *string* only: two engines with other KV
layouts under one model string read each other's bytes without an error (measured, reference
lmcache.md section 0). Every backend here gives its keys the identity; where a key has no place for
it (`Backend.keys_hold_identity`), two consumers of a tier with one model string and different or
unknown identities must not both be wired.

What changes together is compared by what it will be. A consumer whose edit is refused for another's
sake says in its Usage what it runs and what it waits to be; whoever is to become the same may go
ahead, and the other follows. Replicas of one parent are one consumer to each other: one that runs
may change whatever the others run, as a roll takes them one by one, and says so until they are
alike again. A new one may not: the parent's other children may be of another template.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from function.composers import usage


@dataclass(frozen=True)
class Conflict:
    """Whose blocks would be mixed up with whose, as a person reads it.

    `refused`: whether the workload must not be wired so. `waits`: whether it is refused for another
    consumer's sake alone, and may be wired so once that one is the same.
    """

    text: str
    refused: bool = True
    waits: bool = False


@dataclass(frozen=True)
class Workload:
    """One workload that is to be wired: what it will share, and what it shares now (nothing while
    it has never been wired). `own`: what the composite's other workloads share.
    """

    shares: list[usage.Share]
    running: list[usage.Share]
    own: list[usage.Share]


def find(
    workload: Workload, usages: Iterable[dict[str, Any]], composite: dict[str, Any]
) -> Conflict | None:
    """Why a workload cannot join what is on its tier, or None where it can.

    Whoever is wired came first. Of two that wait, the one first by namespace, kind and name goes
    ahead, so that they do not wait for each other.
    """
    me = usage.consumer(composite)
    rolls: Conflict | None = None
    others = [(usage.user(entry), usage.shares(entry)) for entry in usages]
    mine = [share for share in workload.shares if not share.keyed]
    for i, share in enumerate(mine):
        if not share.model:
            return Conflict(_UNSEEN)
        if any(_collide(share, other) for other in mine[:i]):
            return Conflict(_text(share, "another engine of this workload"))
        if any(_collide(share, other) for other in workload.own):
            return Conflict(_text(share, "another engine of this composite"))
        for who, theirs in others:
            if _order(who) == _order(me) or _agree(share, theirs):
                continue
            waits = not any(other.wired for other in theirs)
            if waits and (workload.running or _order(who) > _order(me)):
                continue
            if not (workload.running and share.identity and _siblings(who, me)):
                return Conflict(_text(share, _named(who)), waits=True)
            rolls = rolls or Conflict(_rolling(share, _named(who)), refused=False)
    return rolls


def possible(shares: list[usage.Share]) -> bool:
    """Whether blocks of these can be mistaken for others' at all."""
    return any(not share.keyed for share in shares)


def _agree(share: usage.Share, theirs: list[usage.Share]) -> bool:
    """Whether another consumer shares nothing by this model string alone, or is the same: as it
    runs, or as it waits to be.
    """
    under = [other for other in theirs if other.model == share.model and not other.keyed]
    return not under or any(not _collide(share, other) for other in under)


def _siblings(one: usage.Consumer, other: usage.Consumer) -> bool:
    return bool(one.owner) and (one.owner, one.namespace) == (other.owner, other.namespace)


def _order(who: usage.Consumer) -> tuple[str, str, str]:
    return who.namespace, who.kind, who.name


def _named(who: usage.Consumer) -> str:
    return f"{who.kind} {who.namespace}/{who.name}"


def _collide(one: usage.Share, other: usage.Share) -> bool:
    if other.keyed:
        return False
    same = one.identity and one.identity == other.identity
    return one.model == other.model and not same


def _text(share: usage.Share, who: str) -> str:
    return (
        f"Its model string {share.model!r} is that of {who}, whose cache identity is another or"
        " unknown; on this tier they would read each other's blocks. Serve the model under a path"
        " or name of its own (--model), use another tier, or, if both really share weights, dtype"
        " and layout, declare the same modelplane.ai/kv-offload-cache-identity on both."
    )


_UNSEEN = (
    "Its model string is known only at run time, and this tier tells blocks apart by nothing else:"
    " whoever serves another model under the same string would read its blocks. Write the model"
    " out in the engine's arguments, or use a tier of another backend."
)


def _rolling(share: usage.Share, who: str) -> str:
    return (
        f"It shares the model string {share.model!r} with {who} of the same parent, whose cache"
        " identity is still another; until that one follows, they read each other's blocks. If it"
        " is not to follow, serve the model under a path or name of its own (--model), or use"
        " another tier."
    )
