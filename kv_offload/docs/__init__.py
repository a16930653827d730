"""The pages that are generated from tables of the code: reasons, connectors, versions; and
README's matrix, a part of a page.

`python -m kv_offload.docs` writes them below the current directory; `--check` only says which
differ (exit 1). A unit test holds them to the tables.
"""

from collections.abc import Sequence
from pathlib import Path

from function.api.engines import ENGINES, VLLM
from function.backends.registry import BACKENDS, gate_rows
from function.contract.gate import Caution, Feature, Row
from function.contract.versions import undeclared_versions
from function.engines.sglang.rules import RULES
from function.engines.vllm.connectors import CONNECTORS, MULTI, Connector, apart
from function.engines.vllm.merge import merge
from function.problems import Refused
from function.reasons import REASONS
from kv_offload.docs import accelerators, commands, images, matrix, models, neighbours, platforms
from kv_offload.docs.markdown import HEADER, code, first_and_last, page, renewed, table

_KINDS = {
    "transfer": "prefill to decode",
    "cache": "offload",
    "multi": "several",
}


def pages() -> dict[str, str]:
    """Every generated page: path below the repository's root -> content."""
    return {
        "docs/accelerators.md": accelerators.text(),
        "docs/commands.md": commands.text(),
        "docs/connectors.md": _connectors(),
        "docs/images.md": images.text(),
        "docs/models.md": models.text(),
        "docs/neighbours.md": neighbours.text(),
        "docs/platforms.md": platforms.text(),
        "docs/reasons.md": _reasons(),
        "docs/versions.md": _versions(),
    }


def sections() -> dict[str, tuple[str, list[str]]]:
    """The generated parts of pages that people write: path -> (name of the part, its lines)."""
    return {"README.md": ("matrix", matrix.lines())}


def drift(root: Path) -> dict[str, str]:
    """The pages below `root` that differ from their tables, as they should be.

    A page that people write is looked at where it is there; one without its part's marks is an
    error (ValueError).
    """
    wanted = pages()
    for path, (name, lines) in sections().items():
        if (root / path).is_file():
            wanted[path] = renewed((root / path).read_text(), name, lines)
    return {
        path: text
        for path, text in wanted.items()
        if not (root / path).is_file() or (root / path).read_text() != text
    }


def main(arguments: Sequence[str]) -> int:
    root, changed = Path.cwd(), drift(Path.cwd())
    for path, text in changed.items():
        if "--check" in arguments:
            print(f"{path} differs from its table: run python -m kv_offload.docs")
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        print(path)
    return int("--check" in arguments and bool(changed))


def _reasons() -> str:
    out = [
        HEADER.format(source="function/reasons.py"),
        "# Reasons",
        "",
        "The condition `KVOffloadReady` of a consumer has one of these reasons, and so has "
        "the label `reason` of the metrics. The list is closed. Pods that were wired once "
        "stay wired whatever the reason; the last column is about pods that were never "
        "created before, under `policy: Required` (under `Optional` they are created unwired "
        "instead of being held back).",
        "",
        *table(
            ("Reason", "Status", "Meaning", "Pods"),
            (
                (f"[{r.name}](#{r.name.lower()})", str(r.ready), r.meaning, r.pods)
                for r in REASONS.values()
            ),
        ),
    ]
    for reason in REASONS.values():
        out += ["", f"## {reason.name}", "", f"{reason.meaning}", "", f"What to do: {reason.fix}"]
        out += ["", "```text", reason.example, "```"]
    return page(out)


def _brought() -> tuple[str, ...]:
    """The connectors of vLLM that tiers bring, the columns of the merge table."""
    allowed = [BACKENDS[name].allows.connectors for name in BACKENDS.specs]
    return tuple(name for names in allowed for name in CONNECTORS if name in names)


def _connectors() -> str:
    tiers = _brought()
    out = [
        HEADER.format(source="function/engines/vllm"),
        "# Connectors",
        "",
        "What becomes of a user's own `--kv-transfer-config` when a tier brings a connector "
        "too. The user's stays first and as written; the tier's comes behind it in a "
        "`MultiConnector`, which loads from the first child with a hit and saves to all. A tier's "
        "connector from prefill to decode comes before the user's caches: behind one with half of "
        "the blocks it would never be asked for those that prefill has sent. Roles "
        "are kept, `kv_load_failure_policy` and `engine_id` stand at the top, and a "
        "policy that the user set stays. The tier's own connector, already there and going "
        "to the same place, is completed and not added again; any value that differs is a "
        "ConnectorConflict. Connectors that are not in the table, and known ones from a "
        "module of the user's own, are conflicts.",
        "",
        "## The user's connector and the tier's",
        "",
        *table(
            ("User's", "For", *tiers),
            (
                (f"`{row.name}`", _purpose(row), *(_beside(row, tier) for tier in tiers))
                for row in CONNECTORS.values()
                if row.name != MULTI
            ),
        ),
        "",
        "A user's `MultiConnector` is taken child by child: each child as in its row, the "
        "tier's at its end of the list. A `MultiConnector` inside another, a child without "
        "`kv_role`, and children with different `engine_id` are conflicts.",
        "",
        "## Hybrid KV cache manager",
        "",
        "One connector without support turns it off for the engine, and models with Mamba or "
        "linear attention layers do not start: "
        + ", ".join(f"`{c.name}`" for c in CONNECTORS.values() if not c.hma)
        + ".",
        "",
        "## Flags that are conflicts or refusals",
        "",
        "- `--kv-offloading-size`, `--kv-offloading-backend`: vLLM overwrites the connector of any "
        "`--kv-transfer-config` with them.",
        "- `--config FILE` that cannot be read: it may hold either of them. One that a ConfigMap "
        "of the same composite brings is read, and its flags count as the argv's do; a connector "
        "in it is merged into the argv, which wins over the file. Of vLLM's switches `false` is "
        "lost under `vllm serve` (0.33), and so it is here.",
        "- An expansion among the words (`$EXTRA_ARGS`) that may hold any flag.",
        "- A flag of the tier's that the user set to another value. `--kv-events-config` is never "
        "written over the user's.",
        "",
        "## SGLang",
        "",
        "Combinations that SGLang refuses, or accepts without doing the offload:",
        "",
        *(f"- {rule.about}." for rule in RULES if rule.fatal),
        "",
        "Combinations that SGLang changes without a word; the pod is wired, and told:",
        "",
        *(f"- {rule.about}." for rule in RULES if not rule.fatal),
    ]
    return page(out)


def _purpose(row: Connector) -> str:
    return f"other; {row.why}" if row.kind == "closed" else _KINDS[row.kind]


def _beside(row: Connector, tier: str) -> str:
    user = {"kv_connector": row.name, "kv_role": "kv_both"}
    try:
        merged = merge(user, {"kv_connector": tier, "kv_role": "kv_both"}).config or {}
    except Refused:
        return "conflict" if row.kind == "closed" else f"conflict: {apart(row, CONNECTORS[tier])}"
    return "side by side" if merged["kv_connector"] == MULTI else "the same: completed"


def _versions() -> str:
    out = [
        HEADER.format(source="each backend's gate.py"),
        "# Versions",
        "",
        "Which connector goes with which engine. What is not here is refused (EngineUnsupported, "
        "VersionMismatch). With an engine of unknown version a tier uses only what all "
        "versions have that it may be ("
        + "; ".join(f"{name} {first_and_last(undeclared_versions(name))}" for name in ENGINES)
        + "); where they differ in whether the connector exists at all, the version must be "
        "declared by the annotation `modelplane.ai/kv-offload-engine-version`.",
        "",
        "The sources are what was read. Where it says *ran*, the engine's own parser and checks "
        "took it in that version, and vLLM resolved the connector's class. Nothing was run on a "
        "GPU.",
    ]
    for engine in ENGINES:
        rows = [row for row in gate_rows() if row.engine == engine]
        name = "kv_connector" if engine == VLLM else "offload"
        out += ["", f"## {engine}", ""]
        out += table(
            (name, engine, "The tier's package", "Source"),
            (
                (
                    f"`{row.connector}`",
                    code(row.versions),
                    f"{row.package} {code(row.package_versions)}" if row.package else "",
                    row.source,
                )
                for row in rows
            ),
        )
        features = [(row, feature) for row in rows for feature in row.features]
        out += ["", f"### {engine}: what is emitted from which version on", ""]
        out += table(("Of", "Emitted", "From", "Source"), (_feature(*pair) for pair in features))
        cautions = [(row, caution) for row in rows for caution in row.cautions]
        out += ["", f"### {engine}: warnings and refusals", ""]
        out += table(("Of", "When", "What", "Source"), (_caution(*pair) for pair in cautions))
    return page(out)


def _feature(row: Row, feature: Feature) -> tuple[str, ...]:
    where = [code(feature.engine) and f"{row.engine} {code(feature.engine)}"]
    where.append(code(feature.backend) and f"{row.package} {code(feature.backend)}")
    whole = f"{row.engine} {code(row.versions)}"
    return (
        f"`{row.connector}`",
        f"`{feature.name}`",
        ", ".join(w for w in where if w) or whole,
        feature.source,
    )


def _caution(row: Row, caution: Caution) -> tuple[str, ...]:
    when = [code(caution.engine) and f"{row.engine} {code(caution.engine)}"]
    when.append(code(caution.backend) and f"{row.package} {code(caution.backend)}")
    when.append(f"CUDA {caution.cuda}" if caution.cuda else "")
    when.append(f"image {caution.repository}" if caution.repository else "")
    what = f"Refused: {caution.message}" if caution.refuse else caution.message
    return (f"`{row.connector}`", ", ".join(w for w in when if w) or "always", what, caution.source)
