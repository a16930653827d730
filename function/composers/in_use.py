"""Whether anything uses a tier, by core's mark; and a mark taken off that nobody holds any more.

Core labels what a Usage is of, refuses to delete what has the label, and takes it off with the last
Usage. Two that go at the same moment each count the other, and the label stays for good: in 4 of 4
times with two, in 4 of 4 with thirty (core 2.4.0, its internal/controller/protection/usage). Nobody
could then take a fleet off that cluster, or delete the fleet. So a tier remembers one Usage of
itself in its status, and looks that up by name. When it is gone, the tier lists them all; where
there is none, it composes one of its own and drops it. With that one core takes the label off; or
somebody else protects the tier, and it looks once more at the next edit.

Which one is remembered is chosen by a digest: consumers leave in the order of their names, and each
time that it goes all are listed (of 60 that left so 59 times, by the digest 5 times).

Rejected: listing the Usages in each call. Each is some 2.8 KB, with its managed fields.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from function import names
from function.composers import usage
from function.edge.answer import Requirement
from function.edge.request import Call
from function.kube import access, naming
from function.kube.access import Json

REQUIRED_USAGES = "usages"
REQUIRED_OWN = "own-usages"
REQUIRED_ONE = "one-usage"
MARK_KEY = "mark-of-use"
# `status.usage`, with the generation, where something else than a consumer protects the tier.
OF_OTHERS = "-"

_IN_USE = ("metadata", "labels", "crossplane.io/in-use")
_KNOWN = ("status", "usage")


def is_in_use(call: Call, key: str = "") -> bool:
    """Return whether any Usage protects the composite, or what it composes under `key`."""
    found = call.observed_value(key, *_IN_USE) if key else call.composite_value(*_IN_USE)
    return bool(found == "true")


def in_use_status(*, used: bool) -> str:
    """Return `status.consumers`. It says no number: each change calls every consumer."""
    return "1+" if used else "0"


@dataclass(frozen=True)
class Mark:
    """What core's mark of use on a tier stands for.

    `usage`: for `status.usage`. `resources`: Usages of itself that the tier composes, by key.
    """

    usage: str = ""
    requirements: dict[str, Requirement] = field(default_factory=dict)
    resources: dict[str, Json] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        """Return whether nothing more is to be found out, or done."""
        return REQUIRED_OWN not in self.requirements or self.usage.startswith(OF_OTHERS)


def checked(call: Call, tier: tuple[str, str]) -> Mark:
    """Return what stands behind the mark on `tier` (namespace, name), as far as it is looked up."""
    if not is_in_use(call):
        return Mark()
    known = call.composite_value(*_KNOWN) or ""
    namespace, _, name = known.partition("/")
    required: dict[str, Requirement] = {}
    if name:
        required[REQUIRED_ONE] = Requirement(
            names.USAGE_API_VERSION, "Usage", name=name, namespace=namespace
        )
        one = call.required(REQUIRED_ONE)
        if one is None or any(_is_of(each, tier) for each in one):
            return Mark(known, required)
    required[REQUIRED_USAGES] = usage.usages_of(*tier)
    all_ = call.required(REQUIRED_USAGES)
    if all_ is None:
        return Mark(known, required, _kept(call, tier))
    if users := [each for each in all_ if _is_of(each, tier)]:
        return Mark(_reference(min(users, key=_chosen)), required)
    lost = lost_usages(call, tier, required)
    own = call.required(REQUIRED_OWN)
    if lost or own is None or any(_key(each) != MARK_KEY for each in _own(call, own)):
        return Mark(known, required, lost or _kept(call, tier))  # two might go in the same moment
    looked = f"{OF_OTHERS}{call.composite_value('metadata', 'generation') or ''}"
    if known == looked or _is_in_force(call):
        return Mark(looked, required)
    return Mark(known, required, {MARK_KEY: _of_mark(tier)})


def lost_usages(
    call: Call, tier: tuple[str, str], requirements: dict[str, Requirement]
) -> dict[str, Json]:
    """Return a tier's Usages of itself that core no longer counts as composed, by key.

    Add the lookup of them to `requirements`.

    Core writes what a composite composes from what it has read, which may be old; what it made
    meanwhile stays then, and such a Usage keeps its tier from being deleted. Composed once more,
    it counts again, and the next call drops it.
    """
    labels = {names.LABEL_OWN_USAGE: names.reference(*tier)}
    requirements[REQUIRED_OWN] = Requirement(
        names.USAGE_API_VERSION, "Usage", labels=labels, namespace=tier[0]
    )
    known = set(call.observed_keys())
    out = {}
    for each in _own(call, call.required(REQUIRED_OWN) or ()):
        key = _key(each)
        if key not in known and not _leaves(each):
            _, namespace, name = access.named(each)
            reason = access.text(each, "spec", "reason")
            out[key] = usage.of_itself(tier, reason, {"name": name, "namespace": namespace})
    return out


def _own(call: Call, found: Iterable[Json]) -> list[Json]:
    """Return the Usages that the tier composed of itself, of those that say so."""
    uid = call.composite_value("metadata", "uid")
    ours = (usage.TURN_KEY, usage.FLEET_KEY, MARK_KEY)
    return [
        each
        for each in found
        if _key(each).startswith(ours)
        and any(o.get("uid") == uid for o in access.objects(each, "metadata", "ownerReferences"))
    ]


def _is_of(found: Json, tier: tuple[str, str]) -> bool:
    """Return whether core counts a Usage as one of the tier; anybody can write a label."""
    of = access.mapping(found, "spec", "of")
    place = access.text(of, "resourceRef", "namespace") or access.named(found)[1]
    return (of.get("kind"), place, access.text(of, "resourceRef", "name")) == (
        "KVOffloadTier",
        *tier,
    )


def _leaves(found: Json) -> bool:
    return bool(access.text(found, "metadata", "deletionTimestamp"))


def _chosen(found: Json) -> tuple[bool, str]:
    return _leaves(found), naming.digest(_reference(found))


def _key(found: Json) -> str:
    return access.texts(found, "metadata", "annotations").get(naming.RESOURCE_NAME, "")


def _reference(found: Json) -> str:
    _, namespace, name = access.named(found)
    return f"{namespace}/{name}"


def _is_in_force(call: Call) -> bool:
    """Return whether core's controller has the tier's own Usage, and so ends it in order."""
    return bool(call.observed_value(MARK_KEY, "metadata", "finalizers"))


def _kept(call: Call, tier: tuple[str, str]) -> dict[str, Json]:
    return {MARK_KEY: _of_mark(tier)} if call.is_observed(MARK_KEY) else {}


def _of_mark(tier: tuple[str, str]) -> Json:
    reason = "it looks whether anything still uses it: try again, or mend what Accepted names"
    return usage.of_itself(tier, reason, {})
