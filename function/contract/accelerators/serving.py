"""Whether a connector serves an accelerator, or a way of sharing one: rows of the backends."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from function.contract.accelerators.kinds import NAMES, Accelerator


class Served(Enum):
    YES = "served"
    NO = "out of scope"
    UNPROVEN = "unproven"  # upstream has code for it; nobody says that it works


@dataclass(frozen=True)
class AcceleratorRow:
    """Whether a connector of an engine serves an accelerator, or a way of sharing one.

    `mode`: what of the tier it depends on ("" for any), e.g. "Isolated". `message`: why not, or
    what holds; a whole sentence.
    """

    connector: str
    engine: str
    accelerator: str
    served: Served
    source: str
    message: str = ""
    mode: str = ""
    sharing: str = ""


def served(
    rows: Iterable[AcceleratorRow], connector: str, engine: str, mode: str, accelerator: Accelerator
) -> tuple[Served, str]:
    """Return what the rows say, and the sentence for people.

    An unknown accelerator is served: most pods under DRA name none. One that no row names is not.
    A variant (`HiCache/file`) is held to its connector's rows too.
    """
    if not accelerator.name:
        return Served.YES, ""
    where = f"{NAMES[accelerator.name]} ({accelerator.because})"
    mine = [
        r
        for r in rows
        if r.connector in (connector, connector.partition("/")[0])
        and (r.engine, r.accelerator) == (engine, accelerator.name)
        and r.mode in ("", mode)
        and r.sharing in ("", accelerator.sharing)
    ]
    if not mine:
        return Served.NO, f"{connector} is not made for {where}; this pod is left alone"
    worst = min(mine, key=lambda row: _ORDER.index(row.served))
    if worst.served is Served.YES:
        return Served.YES, worst.message
    return worst.served, f"on {where}: {worst.message}"


_ORDER = (Served.NO, Served.UNPROVEN, Served.YES)
