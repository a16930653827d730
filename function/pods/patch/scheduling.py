"""Required node affinity: the pod runs only where the tier does, and where it could run before.

`nodeSelectorTerms` are alternatives, the expressions in one term all hold (core/v1 NodeSelector):
so ours are added to every term.
"""

from collections.abc import Mapping, Sequence

from function.kube.access import Json
from function.pods.patch.draft import Draft, child
from function.problems import Refused
from function.reasons import Reason

_PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def merge(draft: Draft, selector: Mapping[str, str], expressions: Sequence[Json]) -> None:
    """Require the labels of `selector` and the NodeSelectorRequirements of `expressions`.

    Raise NodeMismatch where the pod's own nodeSelector or affinity excludes the tier's nodes.
    """
    required = [
        {"key": key, "operator": "In", "values": [selector[key]]} for key in sorted(selector)
    ] + [dict(e) for e in expressions]
    own = draft.spec.get("nodeSelector") or {}
    for e in required:
        if e["key"] in own and _excludes(_in(e["key"], own[e["key"]]), e):
            raise Refused(
                Reason.NODE_MISMATCH,
                f"the pod wants nodes with {e['key']}={own[e['key']]}, and the tier runs on nodes "
                f"with {_describe(e)}; choose a tier on those nodes, or change the selector",
                f"spec.nodeSelector[{e['key']}]",
            )
    # What the pod's own selector already says needs no saying twice.
    required = [e for e in required if not (e["key"] in own and e == _in(e["key"], own[e["key"]]))]
    if not required:
        return
    affinity = child(child(draft.spec, "affinity"), "nodeAffinity")
    own_required = child(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = own_required.get("nodeSelectorTerms")
    if not terms:
        own_required["nodeSelectorTerms"] = [{"matchExpressions": required}]
        return
    open_terms = [t for t in terms if _contradiction(t, required) is None and _matches_some(t)]
    if not open_terms:
        first = next((c for t in terms if (c := _contradiction(t, required))), None)
        raise Refused(
            Reason.NODE_MISMATCH,
            "the pod's node affinity excludes the tier's nodes"
            + (f" ({_describe(first[0])} against {_describe(first[1])})" if first else "")
            + "; choose a tier on those nodes, or change the affinity",
            _PATH,
        )
    for term in terms:
        if not _matches_some(term):
            continue
        have = term.get("matchExpressions") or []
        missing = [e for e in required if e not in have]
        if missing:
            term["matchExpressions"] = have + missing


def _in(key: str, value: str) -> Json:
    return {"key": key, "operator": "In", "values": [value]}


def _matches_some(term: Json) -> bool:
    """Return whether a term matches any node: an empty one does not, and stays empty."""
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _contradiction(term: Json, required: Sequence[Json]) -> tuple[Json, Json] | None:
    for have in term.get("matchExpressions") or ():
        for e in required:
            if have.get("key") == e["key"] and (_excludes(have, e) or _excludes(e, have)):
                return have, e
    return None


def _excludes(a: Json, b: Json) -> bool:
    """Return whether no label satisfies both (same key); False for unknown combinations."""
    values_a, values_b = set(a.get("values") or ()), set(b.get("values") or ())
    match a.get("operator"), b.get("operator"):
        case "In", "In":
            return not values_a & values_b
        case "In", "NotIn":
            return values_a <= values_b
        case "In" | "Exists" | "Gt" | "Lt", "DoesNotExist":
            return True
        case "In", "Gt" | "Lt" as operator:
            bound = next(iter(values_b), "")
            return not any(_beyond(v, operator, bound) for v in values_a)
    return False


def _beyond(value: str, operator: str, bound: str) -> bool:
    try:
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    except ValueError:
        return False


def _describe(e: Json) -> str:
    values = ", ".join(e.get("values") or ())
    return f"{e.get('key')} {e.get('operator')}" + (f" [{values}]" if values else "")
