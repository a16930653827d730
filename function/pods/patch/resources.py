"""Memory, hugepages, devices and claims: raised or added, never lowered.

What was added to a user's quantity is kept in one annotation of the pod template, so that wiring a
wired pod adds nothing, and wiring it for another size adds only the difference.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from function.kube import quantity
from function.kube.access import Json
from function.pods.patch import volumes
from function.pods.patch.draft import ADDED, Draft, child, conflict, items


def merge(
    draft: Draft,
    amounts: Mapping[str, int],
    hugepages: Mapping[str, int],
    devices: Mapping[str, int],
    claims: Sequence[Json],
) -> None:
    """Add quantities, devices and claims. Raise PodConflict where the pod's own contradict them.

    `amounts`: bytes added to requests and limits of that name where they are set. `hugepages`:
    {"2Mi": bytes}. `devices`: the least count of each.
    """
    before = _read_added(draft)
    after = dict(before)
    for name in sorted(amounts):
        _raise_quantity(draft, name, amounts[name], before.get(name, 0), after)
    for size in sorted(hugepages):
        _add_hugepages(draft, size, hugepages[size], before.get(f"hugepages-{size}", 0), after)
    _write_added(draft, after)
    for name in sorted(devices):
        _add_devices(draft, name, devices[name])
    for claim in claims:
        _add_claim(draft, claim)


def _raise_quantity(draft: Draft, name: str, size: int, added: int, after: dict[str, int]) -> None:
    after.pop(name, None)
    places: tuple[tuple[Json, str], ...] = (
        (draft.container.get("resources") or {}, draft.at("resources")),
        # Pod-level resources bound the sum of the containers' (Kubernetes 1.34).
        (draft.spec.get("resources") or {}, "spec.resources"),
    )
    for resources, path in places:
        for kind in ("requests", "limits"):
            have = (resources.get(kind) or {}).get(name)
            if have is None:
                continue
            if size != added:
                resources[kind][name] = _plus(have, size - added, f"{path}.{kind}.{name}")
            if size:
                after[name] = size


def _add_hugepages(draft: Draft, page: str, size: int, added: int, after: dict[str, int]) -> None:
    name = f"hugepages-{page}"
    resources = child(draft.container, "resources")
    limits = child(resources, "limits")
    path = draft.at(f"resources.limits.{name}")
    total = _plus(limits.get(name, 0), size - added, path)
    if quantity.parse(limits.get(name, 0)) != quantity.parse(total):
        limits[name] = total
    requests = child(resources, "requests")
    if quantity.parse(requests.get(name, 0)) != quantity.parse(total):
        requests[name] = total
    after[name] = size
    if not any(k in {**limits, **requests} for k in ("memory", "cpu")):
        raise conflict(
            "hugepages need a cpu or memory request beside them, or the API server refuses the "
            "pod; set one",
            draft.at("resources"),
        )
    if any(
        (v.get("emptyDir") or {}).get("medium") in (f"HugePages-{page}", "HugePages")
        for v in draft.spec.get("volumes") or ()
    ):
        return
    volume = f"kv-offload-hugepages-{page.lower()}"
    volumes.merge(
        draft,
        [{"name": volume, "emptyDir": {"medium": f"HugePages-{page}"}}],
        [{"name": volume, "mountPath": f"/hugepages-{page}"}],
    )


def _add_devices(draft: Draft, name: str, count: int) -> None:
    resources = child(draft.container, "resources")
    path = draft.at(f"resources.limits[{name}]")
    have = (resources.get("limits") or {}).get(name, (resources.get("requests") or {}).get(name))
    if have is None:
        child(resources, "requests")[name] = str(count)
        child(resources, "limits")[name] = str(count)
    elif _parse(have, path) < count:
        raise conflict(f"the tier needs {count} of {name}, and the pod asks for {have}", path)


def _add_claim(draft: Draft, claim: Json) -> None:
    name = claim["name"]
    own = next((c for c in draft.spec.get("resourceClaims") or () if c.get("name") == name), None)
    if own is None:
        items(draft.spec, "resourceClaims").append(dict(claim))
    elif own != claim:
        raise conflict(
            "the name is taken by another claim than the tier's; rename yours",
            f"spec.resourceClaims[{name}]",
        )
    used = items(child(draft.container, "resources"), "claims")
    mine = [c for c in used if c.get("name") == name]
    if not mine:
        used.append({"name": name})
    elif all(c.get("request") for c in mine):
        raise conflict(
            f"the container uses only a part of the claim {name!r}, and the tier needs all of it; "
            "remove `request`",
            draft.at(f"resources.claims[{name}]"),
        )


def _read_added(draft: Draft) -> dict[str, int]:
    text = ((draft.template.get("metadata") or {}).get("annotations") or {}).get(ADDED, "")
    pairs = (part.partition("=") for part in str(text).split(",") if part)
    return {name: int(size) for name, _, size in pairs if size.isdecimal() and len(size) < 19}


def _write_added(draft: Draft, added: Mapping[str, int]) -> None:
    if added:
        annotations = child(child(draft.template, "metadata"), "annotations")
        annotations[ADDED] = ",".join(f"{k}={added[k]}" for k in sorted(added))
    elif ADDED in ((draft.template.get("metadata") or {}).get("annotations") or {}):
        del draft.template["metadata"]["annotations"][ADDED]


def _plus(have: object, size: int, path: str) -> str:
    _parse(have, path)
    return quantity.add_bytes(have, size)


def _parse(have: object, path: str) -> Decimal:
    try:
        return quantity.parse(have)
    except ValueError as e:
        raise conflict(str(e), path) from None
