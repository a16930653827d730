"""CacheIdentityConflict: two consumers whose blocks a tier could not tell apart.

LMCache's NodeServer keys blocks by chunk hash and the model *string* only: two engines with other
KV layouts under one model string read each other's bytes without an error (measured, reference
lmcache.md section 0). Where a backend's key has no place for the identity, two consumers of a tier
with one model string and different or unknown identities must not both be wired.
"""

from typing import Any

from function.composers import usage
from function.composers.tier_plan import TierPlan


def message(
    plan: TierPlan,
    shares: list[usage.Share],
    own: list[usage.Share],
    usages: list[dict[str, Any]],
    composite: dict[str, Any],
) -> str:
    """Why these shares cannot join what is on the tier; "" where they can.

    Whoever is wired came first. Of two that wait, the one first by namespace, kind and name goes
    ahead, so that they do not wait for each other.
    """
    if not possible(plan):
        return ""
    me = _order(usage.consumer(composite))
    for share in shares:
        for other in own:
            if _collide(share, other):
                return _text(share, "another engine of this composite")
        for entry in usages:
            who = usage.user(entry)
            them = _order(who)
            if them == me:
                continue
            for other in usage.shares(entry):
                if _collide(share, other) and (other.wired or them < me):
                    return _text(share, f"{who.kind} {who.namespace}/{who.name}")
    return ""


def possible(plan: TierPlan) -> bool:
    """Whether consumers of this tier can get in each other's way at all."""
    return plan.backend.shares_by_model_string(plan.tier)


def _order(who: usage.Consumer) -> tuple[str, str, str]:
    return who.namespace, who.kind, who.name


def _collide(one: usage.Share, other: usage.Share) -> bool:
    same = one.identity and one.identity == other.identity
    return one.model == other.model and not same


def _text(share: usage.Share, who: str) -> str:
    return (
        f"Its model string {share.model!r} is that of {who}, whose cache identity is another or"
        " unknown; on this tier they would read each other's blocks. Serve the model under a path"
        " or name of its own (--model), use another tier, or, if both really share weights, dtype"
        " and layout, declare the same modelplane.ai/kv-offload-cache-identity on both."
    )
