"""Leave a model's blocks behind once the canary finds wrong ones among them.

The tier's status numbers such models. The number is part of the cache identity, so the engines that
are wired with it find nothing that was stored before. It rises once for each accusation: where the
fault goes on, new blocks are wrong as well, and another identity helps nobody.
"""

from collections.abc import Iterable

from function.api.tier import Observe
from function.composers.serving import WRONG_BLOCKS, ServedModel
from function.contract.backend import ModelName
from function.edge.request import Call
from function.kube import access
from function.kube.access import Json

MOST = 32  # of the XRD's status.quarantine
_NAMED = 3


def numbers(tier: Json) -> dict[ModelName, int]:
    """Return how many times blocks of a model were left behind, from a tier's status."""
    rows = access.at(tier, "status", "quarantine")
    return _numbers(access.objects(rows)) if rows else {}


def rows(call: Call, observe: Observe | None, models: Iterable[ServedModel] | None) -> list[Json]:
    """Return `status.quarantine`; [] where no model ever was.

    Rows stay whatever the spec says then: without its number an engine reads the old blocks again.
    `models`: what the observer sees now, None where nobody knows.
    """
    before = call.composite_value("status", "quarantine") or []
    found = _numbers(before)
    opened = found.keys() & {_model(row) for row in before if row.get("open")}
    if models is not None and observe is not None and observe.quarantines:
        accused = {(m.namespace, m.name) for m in models if m.name and m.state == WRONG_BLOCKS}
        for model in sorted(accused - opened):
            if model in found or len(found) < MOST:
                found[model] = found.get(model, 0) + 1
        opened = accused
    return [
        {
            "namespace": namespace,
            "name": name,
            "number": number,
            "open": (namespace, name) in opened,
        }
        for (namespace, name), number in sorted(found.items())
    ]


def said(rows: Iterable[Json]) -> str:
    """Return a sentence on the models that are accused now, "" for none."""
    accused = [f"{row['name']} in namespace {row['namespace']}" for row in rows if row["open"]]
    if not accused:
        return ""
    more = f" and {len(accused) - _NAMED} more" if len(accused) > _NAMED else ""
    models = ", ".join(accused[:_NAMED])
    return (
        f"Engines of {models}{more} get another cache identity in turns, and read nothing that was"
        " stored before."
    )


def _numbers(rows: Iterable[Json]) -> dict[ModelName, int]:
    found = ((_model(row), row.get("number")) for row in rows)
    return {model: int(n) for model, n in found if isinstance(n, int | float) and n > 0}


def _model(row: Json) -> ModelName:
    return access.text(row, "namespace"), access.text(row, "name")
