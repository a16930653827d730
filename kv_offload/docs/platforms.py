"""docs/platforms.md: labels, taints and the visibility of GPUs on each platform."""

from function.contract.platforms import PLATFORMS, usual_tolerations
from kv_offload.docs.markdown import HEADER, code, page, table


def text() -> str:
    """The page."""
    rows = (
        (
            p.name,
            "<br>".join(_label(label) for label in p.labels) or "none",
            "<br>".join(map(code, p.taints)) + _origin(p.taints, p.by_itself),
            "yes" if p.runtime_class else "no",
            "<br>".join(map(code, p.sources)),
            p.needs,
            p.source,
        )
        for p in PLATFORMS
    )
    return page(
        [
            HEADER.format(source="function/facts/platforms.yaml"),
            "# Platforms",
            "",
            "An agent must run on each node that runs engines (`spec.nodes`), and see every GPU of "
            "it without claiming one (`spec.gpuVisibility`). Both depend on the platform. A tier "
            "says nothing of its platform: set what the row of yours names.",
            "",
            *table(
                (
                    "Platform",
                    "Labels of GPU nodes, for `nodes.selector`",
                    "Taints",
                    "RuntimeClass `nvidia`",
                    "`gpuVisibility.source`",
                    "What must be set",
                    "Read in",
                ),
                rows,
            ),
            "",
            "A label without a value has the type of the GPU or of the machine as its value.",
            "",
            "**Tolerations.** Agents on engines' nodes (LMCache's server, Mooncake's store as a "
            "DaemonSet) tolerate these taints where `spec.nodes.tolerations` is absent:",
            "",
            *(f"- {code(_toleration(t.dump()))}" for t in usual_tolerations()),
            "",
            "A list of your own stands in place of them, so repeat those that you need; an empty "
            "one tolerates nothing. Master, etcd and stores of a StatefulSet tolerate only what "
            "the tier names.",
            "",
            "Where an engine cannot do without an agent on its node (LMCache's server), its pods "
            "are tied to the labels of `nodes.selector`. Its tolerations stay its author's: one "
            "that goes beyond the agents' is a note behind `Wired`, since such an engine would "
            "start on a node with that taint without an agent, and fail. Whether a node has the "
            "taint is not known: the function sees no Node of a workload cluster.",
            "",
            "**When it does not fit, the tier says so.** An agent counts as started only when its "
            "container sees a GPU: with the wrong source its pod stays unready, the kubelet's "
            "events name the reason (`Startup probe failed: no GPU is visible ...`), and "
            "`AgentsReady` lists what usually stands in the way once the start has taken too "
            "long. Pods that the cluster refuses to create (no such RuntimeClass, Pod Security, a "
            "quota) are counted apart. No node with the labels and without other "
            "taints is `NoMatchingNodes`.",
            "",
            "`None` adds nothing to the pods. It is for clusters where something else shows GPUs "
            "to the agents, such as an admission policy; the check of the start holds there too. "
            "Agents without any GPU are not offered: LMCache's other way of copying "
            "(`engine_driven`) unpickles what any wired pod sends, in the agent and in engines.",
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
