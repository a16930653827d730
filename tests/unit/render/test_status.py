"""What `kv-offload status` shows of tiers and consumers."""

from typing import Any

import pytest

from function.composers.refusal import KEPT
from function.names import remote_name
from kv_offload.render import status

Document = dict[str, Any]


def said(kind: str, value: str = "True", reason: str = "", message: str = "") -> Document:
    return {"type": kind, "status": value, "reason": reason, "message": message}


WELL = [said("Accepted"), said("ClusterResolved"), said("AgentsReady"), said("Ready")]


def tier(name: str, *conditions: Document, fleet: str = "", **fields: Any) -> Document:
    labels = {"modelplane.ai/kv-offload-fleet": fleet} if fleet else {}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "KVOffloadTier",
        "metadata": {"namespace": "kv", "name": name, "labels": labels, "generation": 3},
        "spec": {"backend": "LMCache"},
        "status": {
            "cluster": "gpu",
            "agents": {"ready": 3, "desired": 3},
            "capacityGiB": 600,
            "consumers": "1+",
            "conditions": list(conditions or WELL),
            **fields,
        },
    }


def replica(name: str, condition: Document) -> Document:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"namespace": "team-a", "name": name},
        "status": {"conditions": [said("Ready"), condition]},
    }


def silent(name: str) -> Document:
    found = replica(name, said("KVOffloadReady", reason="Wired"))
    found["status"]["conditions"].append(
        said("KVOffloadServing", "False", "Silent", "it looks nothing up.")
    )
    return found


def usage_of(name: str, consumer: str, progress: str = "", fleet: str = "") -> Document:
    return {
        "kind": "Usage",
        "metadata": {
            "namespace": "team-a",
            "labels": {"modelplane.ai/kv-offload-used-fleet": fleet} if fleet else {},
            "annotations": {
                "modelplane.ai/kv-offload-progress": progress,
                "modelplane.ai/kv-offload-used-tier": f"kv/{name}",
                "modelplane.ai/kv-offload-consumer": (
                    f'{{"namespace":"team-a","kind":"ModelReplica","name":"{consumer}"}}'
                ),
            },
        },
    }


STARTING = said("AgentsReady", "False", "Starting", "2 of 3 agents are ready.")
LACKS = said("AgentsReady", "False", "Starting", "1 of their pods do not exist.")
NOT_READY = said("Ready", "False", "Creating")
TITLE = "kv/chat: LMCache on gpu, agents 3/3, 600 GiB, used by"
DESCRIBE = "kubectl describe kvoffloadtier --namespace kv"
PODS = (
    "kubectl get pods --output wide --namespace kv-offload-system "
    "--selector app.kubernetes.io/instance="
)
HELD = said("KVOffloadReady", "False", "TierNotFound", "main: There is no KVOffloadTier kv/chatt.")

# name: (documents, lines)
SHOWN: dict[str, tuple[list[Document], list[str]]] = {
    "all is well": (
        [
            tier("chat"),
            replica("qwen", said("KVOffloadReady", reason="Wired")),
            usage_of("chat", "qwen"),
        ],
        [f"✔ {TITLE} 1", "✔ ModelReplica team-a/qwen: Wired to kv/chat"],
    ),
    "an agent is not ready": (
        [tier("chat", said("Accepted"), STARTING, NOT_READY)],
        [
            f"✘ {TITLE} nobody",
            "  AgentsReady=False (Starting): 2 of 3 agents are ready.",
            f"  look: on gpu: {PODS}{remote_name('kv', 'chat')}",
        ],
    ),
    "only core says why": (
        [tier("chat", *WELL[:3], said("Ready", "False", "Creating", "Unready: x"))],
        [f"✘ {TITLE} nobody", "  Ready=False (Creating): Unready: x", f"  look: {DESCRIBE} chat"],
    ),
    "nobody has reconciled it": (
        [{**tier("chat"), "status": {}}],
        [
            "✘ kv/chat: LMCache, agents 0/0, used by nobody",
            "  Ready=Unknown: Crossplane has not reconciled it yet.",
            f"  look: {DESCRIBE} chat",
        ],
    ),
    "an open circuit breaker": (
        [tier("chat", *WELL, said("Responsive", "False", "WatchCircuitOpen"))],
        [
            f"✔ {TITLE} nobody",
            "  Crossplane drops some of its watch events, so that its status is late: raise "
            "--circuit-breaker-burst (docs/install.md)",
        ],
    ),
    "an edit nobody has seen, and a roll-out": (
        [
            tier(
                "chat",
                *WELL[:3],
                {**said("Ready"), "observedGeneration": 2},
                wiring={"remaining": "2+"},
            ),
            usage_of("chat", "qwen", "Moving"),
            usage_of("chat", "other", "Behind"),
        ],
        [
            f"✔ {TITLE} 2",
            "  its newest edit is not reconciled yet",
            "  its wiring rolls: 2+ consumers remain, now ModelReplica/team-a/qwen",
        ],
    ),
    "a refused edit, said once": (
        [
            tier(
                "chat",
                said("Accepted", "False", "Invalid", "spec.x: no"),
                said("ClusterResolved", "Unknown", "Invalid", "Not looked at."),
                STARTING,
                said("Synced", "False", "ReconcileError", f"the tier {KEPT}spec.x: no"),
                {**said("Ready"), "observedGeneration": 2},
            )
        ],
        [
            f"✘ {TITLE} nobody",
            "  Accepted=False (Invalid): spec.x: no",
            "  AgentsReady=False (Starting): 2 of 3 agents are ready.",
            f"  look: {DESCRIBE} chat",
            f"  look: on gpu: {PODS}{remote_name('kv', 'chat')}",
            "  its newest edit is refused: what runs is kept",
        ],
    ),
    "agents that the cluster does not create": (
        [tier("chat", {**LACKS, "lastTransitionTime": "2026-01-01T00:00:00Z"})],
        [
            f"✘ {TITLE} nobody",
            "  AgentsReady=False (Starting) since 2026-01-01T00:00:00Z: "
            "1 of their pods do not exist.",
            f"  look: on gpu: {PODS}{remote_name('kv', 'chat')}".replace(
                "get pods --output wide", "describe daemonsets"
            ),
        ],
    ),
    "a cluster that is not seen": (
        [
            tier(
                "chat",
                said("ControlPlaneReady", "Unknown", "NotObserved", "Looks fail."),
                said("AgentsReady", "Unknown", "NotObserved", "Looks fail."),
                providerConfigRef={"name": "gpu-config"},
            )
        ],
        [
            "✘ kv/chat: LMCache on gpu, agents 3/3 when seen last, 600 GiB, used by nobody",
            "  ControlPlaneReady=Unknown (NotObserved): Looks fail.",
            "  AgentsReady=Unknown (NotObserved): Looks fail.",
            "  look: kubectl get clusterproviderconfigs.kubernetes.m.crossplane.io gpu-config "
            "--output yaml, and the Secret that it names",
        ],
    ),
    "a fleet before its children": (
        [
            tier("chat-b", fleet="chat"),
            tier("chat", cluster="1/2 clusters"),
            tier("chat-a", STARTING, fleet="chat", cluster="a"),
            tier("alone"),
            usage_of("chat-a", "qwen", fleet="kv.chat"),
        ],
        [
            "✔ kv/alone: LMCache on gpu, agents 3/3, 600 GiB, used by nobody",
            "✔ kv/chat: LMCache on 1/2 clusters, agents 3/3, 600 GiB, used by 1",
            "  ✘ kv/chat-a: LMCache on a, agents 3/3, 600 GiB, used by 1",
            "    AgentsReady=False (Starting): 2 of 3 agents are ready.",
            f"    look: on a: {PODS}{remote_name('kv', 'chat-a')}",
            "  ✔ kv/chat-b: LMCache on gpu, agents 3/3, 600 GiB, used by nobody",
        ],
    ),
    "a fleet's edit on its way, and one that halts": (
        [
            tier("a", *WELL, said("RolledOut", "False", "Progressing", "3 of 40 clusters.")),
            tier("b", *WELL, said("RolledOut", "False", "Halted", "Halted by c7.")),
        ],
        [
            "✔ kv/a: LMCache on gpu, agents 3/3, 600 GiB, used by nobody",
            "  RolledOut (Progressing): 3 of 40 clusters.",
            "✘ kv/b: LMCache on gpu, agents 3/3, 600 GiB, used by nobody",
            "  RolledOut=False (Halted): Halted by c7.",
            f"  look: {DESCRIBE} b",
        ],
    ),
    "an edit that agents take, and one that none does": (
        [
            tier("a", *WELL, said("AgentsReady", "True", "Updating", "Not all agents run it.")),
            tier(
                "b", *WELL, said("AgentsReady", "True", "UpdateTimedOut", "None has become ready.")
            ),
        ],
        [
            "✔ kv/a: LMCache on gpu, agents 3/3, 600 GiB, used by nobody",
            "  AgentsReady (Updating): Not all agents run it.",
            "✘ kv/b: LMCache on gpu, agents 3/3, 600 GiB, used by nobody",
            "  AgentsReady=True (UpdateTimedOut): None has become ready.",
            f"  look: on gpu: {PODS}{remote_name('kv', 'b')}",
        ],
    ),
    "what the observer sees": (
        [
            tier("chat", *WELL, said("Serving"), serving={"hits": "50%+", "used": "75%+"}),
            tier("new", *WELL, said("Serving", "Unknown", "Starting", "No document yet.")),
            tier(
                "off", *WELL[:3], said("Serving", "False", "Silent", "qwen asks nobody."), NOT_READY
            ),
            silent("qwen"),
        ],
        [
            f"✔ {TITLE.replace('600 GiB', '600 GiB, 75%+ used, hits 50%+')} nobody",
            "✔ kv/new: LMCache on gpu, agents 3/3, 600 GiB, used by nobody",
            "  Serving (Starting): No document yet.",
            "✘ kv/off: LMCache on gpu, agents 3/3, 600 GiB, used by nobody",
            "  Serving=False (Silent): qwen asks nobody.",
            f"  look: {DESCRIBE} off",
            "✘ ModelReplica team-a/qwen: Wired, and not used",
            "  Silent: it looks nothing up.",
        ],
    ),
    "a consumer that is refused": (
        [tier("chat"), replica("qwen", HELD)],
        [
            f"✔ {TITLE} nobody",
            "✘ ModelReplica team-a/qwen: TierNotFound to kv/chatt",
            "  main: There is no KVOffloadTier kv/chatt.",
            "  fix: Create the tier, or correct the annotation modelplane.ai/kv-offload-tier: "
            "[NAMESPACE/]NAME (default namespace modelplane-system).",
        ],
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_lines(name: str) -> None:
    documents, expected = SHOWN[name]
    found = status.status(documents)
    assert list(status.lines(found)) == expected
    assert found.has_problem == any(line.lstrip().startswith("✘") for line in expected)


def test_one_tier_keeps_its_children_and_consumers() -> None:
    documents = [
        tier("chat"),
        tier("chat-a", fleet="chat"),
        tier("other"),
        replica("wired", said("KVOffloadReady", reason="Wired")),
        usage_of("chat-a", "wired"),
        replica("held", said("KVOffloadReady", "False", "TierNotReady", "main: kv/chat: no.")),
        replica("elsewhere", said("KVOffloadReady", reason="Wired")),
        usage_of("other", "elsewhere"),
    ]
    for only in ("chat", "kv/chat"):
        found = status.status(documents, only)
        assert [each.name for each in found.tiers] == ["chat", "chat-a"]
        assert [each.name for each in found.consumers] == ["held", "wired"]
    assert status.status(documents, "nothing").tiers == ()


def test_json_holds_what_the_lines_say() -> None:
    shown = status.status([tier("chat", STARTING), replica("qwen", HELD)]).as_json()
    (found,), (consumer,) = shown["tiers"], shown["consumers"]
    assert [each["condition"] for each in found["problems"]] == ["AgentsReady"]
    assert (consumer["wired"], consumer["reason"]) == (False, "TierNotFound")


def test_tier_keeps_consumers_whose_tier_is_not_known() -> None:
    """A refused consumer has no Usage, and its message need not name the tier."""
    refused = said("KVOffloadReady", "False", "EngineUnsupported", "main: no.")
    found = status.status([tier("chat"), replica("qwen", refused)], "chat")
    assert [each.name for each in found.consumers] == ["qwen"] and found.has_problem
    other = said("KVOffloadReady", "False", "TierNotReady", "main: KVOffloadTier kv/old is not.")
    named = [tier("chat"), tier("old"), replica("qwen", other)]
    assert status.status(named, "chat").consumers == ()
    (found_there,) = status.status(named, "old").consumers
    assert found_there.fix.startswith("Run kubectl describe kvoffloadtier -n kv old and")
    moving = [tier("chat"), tier("old"), replica("qwen", refused), usage_of("old", "qwen")]
    assert [each.name for each in status.status(moving, "chat").consumers] == ["qwen"]


CONSUMERS = {
    "turned off": ({}, said("KVOffloadReady", "False", "TurnedOff", "off"), "· ", False),
    "asks no more": ({}, said("KVOffloadReady", "False", "NotRequested", "no"), "· ", False),
    "an older spec": (
        {"generation": 2},
        {**said("KVOffloadReady", reason="Wired"), "observedGeneration": 1},
        "✘ ",
        True,
    ),
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_mark_of_a_consumer(name: str) -> None:
    metadata, condition, mark, is_problem = CONSUMERS[name]
    document = replica("qwen", condition)
    document["metadata"] |= metadata
    found = status.status([tier("chat"), document])
    assert list(status.lines(found))[1].startswith(mark)
    assert found.has_problem == is_problem


def test_consumer_that_core_cannot_reconcile_is_a_problem() -> None:
    document = replica("qwen", said("KVOffloadReady", reason="Wired"))
    document["status"]["conditions"].append(said("Synced", "False", message="function failed"))
    found = status.status([tier("chat"), document])
    assert list(status.lines(found))[2] == "  Crossplane cannot reconcile it: function failed"
    assert found.has_problem


def test_control_characters_make_no_lines() -> None:
    message = "\x1b[2J\n✔ kv/fake: fine"
    found = status.status([tier("chat", said("Accepted", "False", "Invalid", message))])
    assert all(line.isprintable() for line in status.lines(found))
    assert len(list(status.lines(found))) == 3


@pytest.mark.parametrize("odd", [None, 5, "x", [], [None], {}, {"a": 1}], ids=str)
def test_odd_documents_never_raise(odd: Any) -> None:
    for document in (tier("chat"), replica("qwen", HELD), usage_of("chat", "qwen")):
        for path in (("metadata",), ("spec",), ("status",), ("kind",), ("apiVersion",)):
            list(status.lines(status.status([{**document, path[0]: odd}])))
        for key in ("conditions", "agents", "capacityGiB", "consumers", "wiring", "cluster"):
            changed = {**document, "status": {**document.get("status", {}), key: odd}}
            list(status.lines(status.status([changed], "chat")))
        for key in ("generation", "labels", "annotations", "namespace", "name"):
            changed = {**document, "metadata": {**document["metadata"], key: odd}}
            list(status.lines(status.status([changed])))
    condition = {"type": odd, "status": odd, "reason": odd, "message": odd}
    for made in (tier("chat", condition), replica("qwen", {**condition, "type": "KVOffloadReady"})):
        list(status.lines(status.status([made])))


def test_wide_is_a_table_of_tiers_and_one_of_consumers() -> None:
    documents = [tier("chat", STARTING), tier("b", message="\n"), replica("qwen", HELD)]
    rows = [line.split() for line in status.wide(status.status(documents, context="eu"))]
    assert [row[:3] for row in rows if row] == [
        ["CONTEXT", "NAMESPACE", "TIER"],
        ["eu", "kv", "b"],
        ["eu", "kv", "chat"],
        ["CONTEXT", "NAMESPACE", "KIND"],
        ["eu", "team-a", "ModelReplica"],
    ]
    assert rows[2][-2:] == ["Problem", "AgentsReady=False(Starting)"]
    assert "TierNotFound" in rows[5]


def test_several_contexts_are_told_apart() -> None:
    found = status.merged(status.status([tier("chat")], context=name) for name in ("eu", "us"))
    shown = list(status.lines(found))
    title = f"✔ {TITLE} nobody"
    assert shown == ["Context eu:", title, "Context us:", title]
    assert [each["context"] for each in found.as_json()["tiers"]] == ["eu", "us"]
