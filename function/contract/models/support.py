"""Whether a connector goes with a model: rows, one answer per family, and what to ask for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from packaging.version import Version

from function.contract.models import Model
from function.contract.models.families import LAYOUTS
from function.contract.versions import within


class Support(Enum):
    WORKS = "works"
    CAUTION = "caution"
    REFUSED = "refused"
    ASK = "ask"  # it depends on the model, and nobody says what the model is


@dataclass(frozen=True)
class FamilyRow:
    """`connector` (as the version gate names it) of `engine` with models of `families`, together.

    `engines`: PEP 440 ranges of the engine's versions, "" for all. `message`: why, and what to do;
    "" for what works.
    """

    connector: str
    engine: str
    families: frozenset[str]
    support: Support
    source: str
    message: str = ""
    engines: str = ""


DECLARE = (
    "declare it by the annotation modelplane.ai/kv-offload-model-family, e.g. dense "
    "(docs/models.md)"
)

# Behind the refusal of some versions, where the engine's is not known.
_UNDECLARED = (
    "; which version of {engine} this is cannot be seen: where it is one that works, declare it by "
    "the annotation modelplane.ai/kv-offload-engine-version"
)


def judge(
    rows: Iterable[FamilyRow], connector: str, engine: str, version: Version | None, model: Model
) -> tuple[Support, tuple[str, ...]]:
    """Return what the rows say about this model, with messages.

    Messages: of the cautions, or of the one refusal, or what is asked for. A family that no row
    names works.

    `version`: the engine's, None when it is unknown; then a row of any version counts. A variant
    (`HiCache/mooncake`) is held to its connector's rows too.
    """
    mine = [
        row
        for row in rows
        if row.engine == engine
        and row.connector in (connector, connector.partition("/")[0])
        and (not row.engines or version is None or within(version, row.engines))
    ]
    hits = [row for row in mine if row.families <= model.families]
    refused = next((row for row in hits if row.support is Support.REFUSED), None)
    if refused is not None:
        unsure = "" if version or not refused.engines else _UNDECLARED.format(engine=engine)
        return Support.REFUSED, (_because(refused, model) + unsure,)
    if not model.known and (kinds := _that_matter(mine, model)):
        return Support.ASK, (
            f"nothing tells what kind of model this is, and {connector} does not serve {kinds}; "
            f"{DECLARE}",
        )
    cautions = [_because(row, model) for row in hits if row.support is Support.CAUTION]
    if cautions:
        return Support.CAUTION, tuple(dict.fromkeys(cautions))
    return Support.WORKS, ()


def _that_matter(rows: Sequence[FamilyRow], model: Model) -> str:
    """Return the refused layouts that the unknown model could have, in words.

    A row of several layouts refuses only models that have all of them.
    """
    found = {
        row.families & set(LAYOUTS)
        for row in rows
        if row.support is Support.REFUSED and row.families - set(LAYOUTS) <= model.families
    }
    alone = {family for families in found if len(families) == 1 for family in families}
    together = sorted(
        " and ".join(f for f in LAYOUTS if f in families)
        for families in found
        if len(families) > 1 and not families & alone
    )
    ones = [f"{', '.join(f for f in LAYOUTS if f in alone)} ones"] if alone else []
    return " or ".join([*ones, *(f"models that are {names} at once" for names in together)])


def _because(row: FamilyRow, model: Model) -> str:
    what = "; ".join(
        f"{family}, by {how}" for family, how in model.because.items() if family in row.families
    )
    return f"the model is {' and '.join(sorted(row.families))} ({what}): {row.message}"
