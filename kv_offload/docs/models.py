"""docs/models.md: kinds of models, how they are told, and which connector moves them."""

from collections.abc import Iterable

from function.backends.registry import model_rows
from function.contract.models.families import (
    ARCHITECTURES,
    DENSE,
    ENCODER,
    FAMILIES,
    HYBRID,
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
from kv_offload.docs.markdown import HEADER, code, page, table

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
}


def text() -> str:
    return page(
        [
            HEADER.format(source="function/facts/models.yaml and each backend's models.py"),
            "# Models",
            "",
            "What the layers keep between tokens is what a tier moves, and not every connector "
            "can. A model's family is, in this order, declared, proven by the engine's flags, or "
            "told by its name; a folder such as `/mnt/models` tells nothing, and a folder's name "
            "may prove that care is needed, never that it is not. Unknown is served where every "
            "family is; elsewhere the pod's owner is asked for:",
            "",
            "```yaml",
            "modelplane.ai/kv-offload-model-family: dense   # or several: mla,multimodal",
            "```",
            "",
            *table(("Family", "Is"), ((code(name), _MEANING[name]) for name in FAMILIES)),
            "",
            "## Which connector serves them",
            "",
            "A family that is not here works, as far as anybody says.",
            "",
            *table(("Connector", "Engine", "Family", "What", "Source"), _support()),
            "",
            "## Told by flags",
            "",
            *table(
                ("Engine", "Flag", "Values", "Family", "Source"),
                (
                    (r.engine, code(r.name), ", ".join(map(code, r.values)), r.family, r.source)
                    for r in FLAGS
                ),
            ),
            "",
            "## Told by name",
            "",
            "A search over the model string's last element in lower case, `_` and `.` read as `-`; "
            "the first row that fits counts.",
            "",
            *table(
                ("Name", "Family", "Source"),
                ((code(r.pattern), _families(r.families), r.source) for r in NAMES),
            ),
            "",
            "## Told by architecture",
            "",
            "Of `architectures` in a `config.json`, or of `--hf-overrides`.",
            "",
            *table(
                ("Family", "Architectures", "Source"),
                (
                    (_families(r.families), ", ".join(map(code, sorted(r.names))), r.source)
                    for r in ARCHITECTURES
                ),
            ),
        ]
    )


def _support() -> Iterable[tuple[str, ...]]:
    for row in model_rows():
        yield (
            code(row.connector),
            f"{row.engine} {code(row.engines)}".strip(),
            _families(row.families),
            f"{row.support.value}: {row.message}" if row.message else row.support.value,
            row.source,
        )


def _families(names: Iterable[str]) -> str:
    return ", ".join(name for name in FAMILIES if name in set(names))
