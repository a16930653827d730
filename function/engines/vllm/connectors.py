"""The KV connectors of vLLM (facts.yaml), and which of them work together; others are refused."""

from dataclasses import dataclass
from functools import cache

from function.engines.vllm.flags import FACTS
from function.facts import Table

MULTI = "MultiConnector"


@dataclass(frozen=True)
class Connector:
    """One `kv_connector`.

    `kind`: "transfer" (prefill to decode), "cache" (offload), "multi", or "closed" (not known to
    work beside another connector). `family`: only one connector of a family fits into an engine,
    and `why` says why. `hma`: supports the hybrid memory allocator; one child that does not turns
    it off for the engine. `layout`: of the GPU's cache, that it asks for. `modules`: prefixes of a
    `kv_connector_module_path` that is still this connector, beside what tiers bring
    (`names.MODULES`). `hosts`: the keys under `kv_connector_extra_config` whose bare host means
    `tcp://`.
    """

    name: str
    kind: str
    family: str
    source: str
    hma: bool = True
    why: str = ""
    modules: tuple[str, ...] = ("vllm.",)
    hosts: tuple[str, ...] = ()
    layout: str = ""


ONE_WAY = "an engine hands its blocks over one way"

_ROWS = Table(Connector, FACTS, "connectors")


def apart(one: Connector, other: Connector) -> str:
    """Why two connectors do not fit into one engine; "" where they do."""
    if one.family == other.family:
        return other.why
    return ONE_WAY if one.kind == other.kind == "transfer" else ""


def layouts(names: frozenset[str]) -> frozenset[str]:
    """Return the layouts of the GPU's cache that these connectors ask for."""
    return frozenset(row.layout for row in _ROWS if row.name in names and row.layout)


@cache
def known() -> dict[str, Connector]:
    """Return every connector by name."""
    return {row.name: row for row in _ROWS}
