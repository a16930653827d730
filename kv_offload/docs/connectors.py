"""docs/connectors.md: what happens to a pod's own connector when a tier brings one too."""

from collections.abc import Iterable

from function.backends.registry import BACKENDS
from function.engines.sglang.rules import RULES
from function.engines.vllm import connectors
from function.engines.vllm.connectors import MULTI, Connector, apart
from function.engines.vllm.merge import merge
from function.problems import Refused
from kv_offload.docs.markdown import HEADER, Sources, code, grouped, page, table

_KINDS = {"transfer": "prefill to decode", "cache": "offload"}

_EXCLUDES = " does not go with "


def text() -> str:
    """Return the page."""
    tiers, why = _brought(), Sources("Why they conflict")
    known = [row for row in connectors.known().values() if row.name != MULTI]
    rows = [
        (code(row.name), _KINDS[row.kind], *(_merged(row, tier, why) for tier in tiers))
        for row in known
        if row.kind != "closed"
    ]
    return page(
        [
            HEADER.format(source="function/engines"),
            "# What happens to my own connector?",
            "",
            "Your `--kv-transfer-config` stays first and as written. The tier's connector joins "
            "behind it in a `MultiConnector`, which loads from the first child with a hit and "
            "saves to all. A tier's transfer from prefill to decode goes before your caches: "
            "behind a cache with half of the blocks, it would never be asked.",
            "",
            "Roles, your `kv_load_failure_policy` and `engine_id` are kept. The tier's own "
            "connector, if present and going to the same place, is completed; any value that "
            "differs is a `ConnectorConflict`. So are connectors without a row, and known names "
            "from a module of your own.",
            "",
            "## Your connector and the tier's",
            "",
            "`both`: side by side. `completed`: the same connector.",
            "",
            *table(("Yours", "For", *tiers), rows),
            *why.lines(),
            "",
            "These conflict with every tier:",
            "",
            *(
                f"- {names}: {why}"
                for names, why in grouped(
                    (code(row.name), row.why) for row in known if row.kind == "closed"
                )
            ),
            "",
            "A `MultiConnector` of yours is read child by child. A `MultiConnector` inside "
            "another, a child without `kv_role`, and children with different `engine_id` are "
            "conflicts.",
            "",
            "## Hybrid KV cache manager",
            "",
            "One connector without support turns it off for the engine, and models with Mamba or "
            "linear attention layers do not start: "
            + ", ".join(code(c.name) for c in connectors.known().values() if not c.hma)
            + ".",
            "",
            "## Flags that are refused",
            "",
            "- `--kv-offloading-size`, `--kv-offloading-backend`: vLLM overwrites any "
            "`--kv-transfer-config` with them.",
            "- `--config FILE` that cannot be read: it may hold either. A file from a ConfigMap "
            "of the same composite is read like arguments, which win over it. `vllm serve` (0.33) "
            "ignores switches that are `false` in it.",
            "- An expansion (`$EXTRA_ARGS`) that may hold any flag.",
            "- A flag of the tier that you set to another value. Your `--kv-events-config` is "
            "never overwritten.",
            "",
            "## SGLang",
            "",
            "SGLang refuses these, or accepts them without offloading:",
            "",
            *_joined(rule.about for rule in RULES if rule.fatal),
            "",
            "SGLang changes these silently; the pod is wired and the condition says so:",
            "",
            *(f"- {rule.about}." for rule in RULES if not rule.fatal),
        ]
    )


def _joined(rules: Iterable[str]) -> list[str]:
    """Return rules as a list; those of one flag that exclude another share an entry."""
    pairs = (rule.partition(_EXCLUDES) for rule in rules)
    found = grouped((other, flag + excludes) for flag, excludes, other in pairs)
    return [f"- {flag}{others}." for others, flag in found]


def _brought() -> tuple[str, ...]:
    """Return the connectors of vLLM that tiers bring: the columns of the table."""
    allowed = [BACKENDS[name].allows.connectors for name in BACKENDS.specs]
    return tuple(name for names in allowed for name in connectors.known() if name in names)


def _merged(row: Connector, tier: str, why: Sources) -> str:
    user = {"kv_connector": row.name, "kv_role": "kv_both"}
    try:
        merged = merge(user, {"kv_connector": tier, "kv_role": "kv_both"}).config or {}
    except Refused:
        return f"conflict {why(apart(row, connectors.known()[tier]))}"
    return "both" if merged["kv_connector"] == MULTI else "completed"
