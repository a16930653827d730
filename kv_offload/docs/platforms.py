"""docs/platforms.md: labels, taints and the visibility of GPUs on each platform."""

from function.contract.platforms import PLATFORMS, usual_tolerations
from kv_offload.docs.markdown import HEADER, code, page, table


def text() -> str:
    """Return the page."""
    rows = (
        (
            p.name,
            "<br>".join(_label(label) for label in p.labels) or "none",
            "<br>".join(map(code, p.taints)) + _origin(p.taints, p.by_itself),
            "yes" if p.runtime_class else "no",
            "<br>".join(map(code, p.sources)),
            p.needs,
        )
        for p in PLATFORMS
    )
    return page(
        [
            HEADER.format(source="function/facts/platforms.yaml"),
            "# What does my platform need?",
            "",
            "An agent must run on each node with engines (`spec.nodes`) and see all its GPUs "
            "without claiming one (`spec.gpuVisibility`). Set what your platform's row names.",
            "",
            *table(
                (
                    "Platform",
                    "Labels of GPU nodes, for `nodes.selector`",
                    "Taints",
                    "RuntimeClass `nvidia`",
                    "`gpuVisibility.source`",
                    "What must be set",
                ),
                rows,
            ),
            "",
            "A label without a value has the type of the GPU or machine as its value.",
            "",
            "## Tolerations",
            "",
            "Agents on engines' nodes (LMCache's server, Mooncake's stores as a DaemonSet) "
            "tolerate these taints if `spec.nodes.tolerations` is absent:",
            "",
            *(f"- {code(_toleration(t.dump()))}" for t in usual_tolerations()),
            "",
            "Your own list replaces them; an empty list tolerates nothing. Master, etcd and "
            "stores of a StatefulSet tolerate only what the tier names.",
            "",
            "Pods that need an agent (LMCache) are bound to the labels of `nodes.selector`. If an "
            "engine tolerates a taint that its agents do not, a note follows `Wired`: on such a "
            "node the engine would find no agent and fail.",
            "",
            "## How a wrong setting shows",
            "",
            "- No GPU visible: the agent stays unready, the kubelet's event says `Startup probe "
            "failed: no GPU is visible ...`, and after the start-up time `AgentsReady` lists the "
            "usual causes.",
            "- Pods that the cluster refuses to create (no such RuntimeClass, Pod Security, a "
            "quota) are counted in `AgentsReady`.",
            "- No node with the labels and without other taints: `NoMatchingNodes`.",
            "",
            "`None` adds nothing to the pods: use it if something else shows GPUs to agents, such "
            "as an admission policy. Agents without GPUs are not offered: LMCache's "
            "`engine_driven` copies unpickle what any wired pod sends.",
        ]
    )


def _label(label: str) -> str:
    return code(label.removesuffix("="))


def _origin(taints: tuple[str, ...], by_itself: bool) -> str:
    if not taints:
        return "none"
    return "" if by_itself else " by convention"


def _toleration(fields: dict[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in fields.items())
