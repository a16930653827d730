"""docs/models.md: kinds of models, how they are told, and which connector moves them."""

from collections.abc import Iterable, Iterator

from function.contract.models.families import (
    ARCHITECTURES,
    DENSE,
    ENCODER,
    FAMILIES,
    HYBRID,
    LONG_ROPE,
    MLA,
    MULTIMODAL,
    NAMES,
    PIPELINE,
    POOLING,
    SLIDING,
    SPARSE,
    SPECULATIVE,
)
from function.contract.models.flags import FLAGS
from kv_offload.docs.backend_rows import model_rows
from kv_offload.docs.markdown import HEADER, code, connectors, grouped, page, table

_MEANING = {
    DENSE: "one kind of attention in every layer",
    HYBRID: "recurrent state (Mamba, GDN, KDA, linear attention) in some layers",
    MLA: "latent attention: the same bytes on every tensor-parallel rank",
    SPARSE: "attention by an index; caches of several shapes",
    SLIDING: "a window on some layers",
    MULTIMODAL: "pictures or sound beside text",
    SPECULATIVE: "a draft model or draft heads beside it",
    POOLING: "embeddings, scores or rewards; nothing is generated",
    ENCODER: "attention in both directions or across: a prefix says nothing of its blocks",
    PIPELINE: "diffusion, or several stages of an engine each (vLLM-Omni)",
    LONG_ROPE: "LongRoPE: long or short rope factors, by a length",
}


def text() -> str:
    """Return the page."""
    return page(
        [
            HEADER.format(source="function/facts/models.yaml and each backend's facts.yaml"),
            "# Which models can a tier serve?",
            "",
            "A connector moves what a model's layers keep between tokens, and not every connector "
            "can move all of it. A model's family is declared, or shown by the engine's flags, or "
            "by its name, in this order. A path such as `/mnt/models` shows nothing. A directory's "
            "name may show that care is needed, never that it is not. An unknown family is served "
            "where every family is; elsewhere declare it:",
            "",
            "```yaml",
            "modelplane.ai/kv-offload-model-family: dense   # or several: mla,multimodal",
            "```",
            "",
            *table(("Family", "Meaning"), ((code(name), _MEANING[name]) for name in FAMILIES)),
            "",
            "## Which connector serves them",
            "",
            "A family without a row works, as far as known. Known faults of families in some "
            "versions are [advisories](advisories.md).",
            "",
            *table(("Family", "Connector", "What"), grouped(_support())),
            "",
            "## Families shown by flags",
            "",
            *table(("Flag", "Engine", "Values", "Family"), grouped(_flags())),
            "",
            "## Families shown by name",
            "",
            "Patterns are searched in the model string's last element in lower case, with `_` and "
            "`.` read as `-`. The first match counts.",
            "",
            *table(
                ("Name", "Family"),
                grouped((code(r.pattern), _families(r.families)) for r in NAMES),
            ),
            "",
            "## Families shown by architecture",
            "",
            "`architectures` of a `config.json`, or of `--hf-overrides`.",
            "",
            *table(
                ("Family", "Architectures"),
                (
                    (_families(r.families), ", ".join(map(code, sorted(r.names))))
                    for r in ARCHITECTURES
                ),
            ),
        ]
    )


def _support() -> Iterator[tuple[str, ...]]:
    """Yield a row per family and answer, with the connectors that share it."""
    name = connectors((row.connector, row.engine) for row in model_rows())
    every = {name(row.connector, row.engine) for row in model_rows()}
    rows = (
        (
            name(row.connector, row.engine)
            + (row.engines and f" {row.engine} {code(row.engines)}"),
            _families(row.families),
            f"{row.support.value}: {row.message}" if row.message else row.support.value,
        )
        for row in model_rows()
    )
    for of, family, what in grouped(rows):
        yield family, "every connector" if every <= set(of.split(", ")) else of, what


def _flags() -> Iterator[tuple[str, ...]]:
    """Yield a row per flag; the families that its values show share one."""
    shown: dict[tuple[str, ...], list[str]] = {}
    for row in FLAGS:
        values = ", ".join(map(code, row.values))
        shown.setdefault((code(row.name), row.engine, values), []).append(row.family)
    for (name, engine, values), families in shown.items():
        yield name, engine, values, ", ".join(families)


def _families(names: Iterable[str]) -> str:
    return ", ".join(name for name in FAMILIES if name in set(names))
