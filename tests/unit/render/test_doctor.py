"""Findings of the doctor in the output of `kubectl get -o yaml`."""

import contextlib
import copy
import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.names import ANNOTATION_COPY_OF
from kv_offload.render import doctor, packaged
from kv_offload.render.files import InputError

Document = dict[str, Any]

OURS = "function-kv-offload"
KIND = "ModelReplica.modelplane.ai"
PACKAGED = {"ownerReferences": [{"apiVersion": "pkg.crossplane.io/v1", "controller": True}]}


def composition(name: str, *functions: str, kind: str = "Composition", **metadata: Any) -> Document:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": {
            "compositeTypeRef": {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelReplica"},
            "mode": "Pipeline",
            "pipeline": [{"step": f, "functionRef": {"name": f}} for f in functions],
        },
    }


def revision(name: str, *functions: str) -> Document:
    return composition(name, *functions, kind="CompositionRevision")


def replica(name: str, used: str, revised: str, *, ours: bool = True) -> Document:
    condition = {"type": "KVOffloadReady", "status": "True", "reason": "Wired"}
    reference = {"compositionRef": {"name": used}, "compositionRevisionRef": {"name": revised}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"crossplane": reference},
        "status": {"conditions": [condition] if ours else []},
    }


def definition(metadata: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "modelreplicas.modelplane.ai", **(metadata or {})},
        "spec": {"group": "modelplane.ai", "names": {"kind": "ModelReplica"}, **spec},
    }


def policy(name: str) -> list[Document]:
    return packaged.selection(composition(name), "theirs")


def function(healthy: str = "True", name: str = OURS) -> Document:
    condition = {"type": "Healthy", "status": healthy, "message": "no image"}
    return {"kind": "Function", "metadata": {"name": name}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("package", "name", "known"),
    [
        ("registry.example/team/function-kv-offload:v0.1.0", "team-function-kv-offload", True),
        ("registry.example/team/function-kv-offload@sha256:0a", "team-function-kv-offload", True),
        ("registry.example/team/function-other:v1", "team-function-kv-offload", False),
        ("", OURS, True),
    ],
)
def test_our_function_is_known_by_its_package(package: str, name: str, known: bool) -> None:
    """Crossplane names a package after its path."""
    installed = {**function(name=name), "spec": {"package": package}}
    report = doctor.examine([composition("one", "theirs", name), installed])
    assert bool(report.examined) is known


def asking(used: str, revised: str, name: str = "asks", composes: str = "Object") -> Document:
    """A replica whose pod template names a tier."""
    found = replica(name, used, revised, ours=False)
    if composes:
        kind = {"apiVersion": "modelplane.ai/v1alpha1", "kind": composes}
        found["spec"]["crossplane"]["resourceRefs"] = [{**kind, "name": "x"}]
    annotations = {"modelplane.ai/kv-offload-tier": "kv/chat"}
    member = {"template": {"metadata": {"annotations": annotations}}}
    found["spec"]["engines"] = [{"members": [member]}]
    return found


def parent(used: str, revised: str, composes: str = "ModelReplica") -> Document:
    return {**asking(used, revised, "parent", composes), "kind": "ModelDeployment"}


def unsynced(used: str, revised: str) -> Document:
    found = replica("new", used, revised, ours=False)
    condition = {"type": "Synced", "status": "False", "message": "no function"}
    return {**found, "status": {"conditions": [condition]}}


def starting(used: str, revised: str) -> Document:
    found = replica("chat", used, revised)
    reason = {"reason": "Starting", "message": "2 of 3 agents are ready."}
    conditions = [
        {"type": "Accepted", "status": "True"},
        {"type": "AgentsReady", "status": "False", **reason},
    ]
    metadata = {"name": "chat", "namespace": "kv"}
    return {
        **found,
        "kind": "KVOffloadTier",
        "metadata": metadata,
        "status": {"conditions": conditions},
    }


def webhook(name: str, group: str) -> Document:
    rule = {"apiGroups": [group], "resources": ["*"], "operations": ["CREATE"]}
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": f"{name}.example.org", "rules": [rule]}],
    }


OF_TIERS = composition("tiers", OURS)
OF_TIERS["spec"]["compositeTypeRef"]["kind"] = "KVOffloadTier"
THEIRS = composition("theirs", "compose", **PACKAGED)
MINE = packaged.copied(THEIRS, "mine", "kv-offload", OURS, "")
UPGRADED = composition("theirs", "compose-v2", **PACKAGED)
REVISIONS = [revision("theirs-1", "compose"), revision("mine-1", "compose", OURS)]
WIRED = replica("qwen", "mine", "mine-1")
WELL = [THEIRS, MINE, *REVISIONS, WIRED, definition(PACKAGED), *policy("mine"), function()]

# name: (documents, the problems' beginnings, the notes' beginnings, how many run well)
CASES: dict[str, tuple[list[Document], list[str], list[str], int]] = {
    "nothing": ([], [], [], 0),
    "all is well": (WELL, [], [], 1),
    "in a list": ([{"kind": "List", "items": WELL}], [], [], 1),
    "a condition that is left over": (
        [*WELL, replica("old", "theirs", "theirs-1")],
        ["ModelReplica team-a/old: KVOffloadReady=True (Wired) is stale"],
        [],
        1,
    ),
    "a composite without the step beside others with it": (
        [*WELL, replica("plain", "theirs", "theirs-1", ours=False)],
        ["ModelReplica team-a/plain: uses Composition theirs, which has no step"],
        [],
        1,
    ),
    "nobody has the step": (
        [THEIRS, *REVISIONS, replica("p", "theirs", "theirs-1", ours=False)],
        [],
        [],
        0,
    ),
    "revisions were not asked for": (
        [THEIRS, MINE, WIRED, *policy("mine")],
        ["ModelReplica team-a/qwen: its CompositionRevision mine-1 is not among"],
        [],
        0,
    ),
    "nothing chooses": (
        [d for d in WELL if "Policy" not in d["kind"]],
        [f"{KIND}: has several Compositions (mine, theirs) and no default"],
        [],
        1,
    ),
    "a policy that is not bound": (
        [d for d in WELL if d["kind"] != "MutatingAdmissionPolicyBinding"],
        [f"{KIND}: has several Compositions"],
        [],
        1,
    ),
    "a default of one's own definition": (
        [THEIRS, MINE, definition(defaultCompositionRef={"name": "mine"})],
        [],
        [],
        0,
    ),
    "a default of a packaged definition": (
        [THEIRS, MINE, definition(PACKAGED, defaultCompositionRef={"name": "mine"})],
        ["CompositeResourceDefinition modelreplicas.modelplane.ai: belongs to a package"],
        [],
        0,
    ),
    "a package of ours": (
        [
            composition("ours", OURS, **PACKAGED),
            definition(PACKAGED, defaultCompositionRef={"name": "ours"}),
        ],
        [],
        [],
        0,
    ),
    "the package was upgraded": (
        [UPGRADED, MINE, *policy("mine")],
        ["Composition mine: is a copy of an older Composition theirs"],
        [],
        0,
    ),
    "the original was not asked for": (
        [MINE],
        [],
        ["Composition mine: is a copy of Composition theirs, which is not given"],
        0,
    ),
    "a package with the step, or an edit": (
        [composition("theirs", "compose", OURS, **PACKAGED)],
        [],
        ["Composition theirs: belongs to a package"],
        0,
    ),
    "steps behind ours": (
        [composition("mine", "compose", OURS, "function-auto-ready")],
        [],
        ["Composition mine: steps run after ours (function-auto-ready)"],
        0,
    ),
    "our step twice": (
        [*WELL[:-1], function(), composition("twice", OURS, "compose", OURS)],
        ["Composition twice: has our step 2 times"],
        ["Composition twice: steps run after ours (compose)"],
        1,
    ),
    "no function": (
        [*WELL[:-1], function(name="other")],
        [f"Function {OURS}: is not installed"],
        [],
        1,
    ),
    "nobody has the step that a composite asks for": (
        [THEIRS, *REVISIONS, asking("theirs", "theirs-1")],
        ["ModelReplica team-a/asks: names a tier, and its Composition theirs has no step"],
        [],
        0,
    ),
    "a parent that hands the name of a tier on to its replicas": (
        [THEIRS, *REVISIONS, parent("theirs", "theirs-1"), MINE, WIRED, *policy("mine")],
        [],
        [],
        1,
    ),
    "one that composes nothing yet": (
        [MINE, THEIRS, *policy("mine"), *REVISIONS, parent("other", "theirs-1", composes="")],
        [],
        ["ModelDeployment team-a/parent: names a tier, and its Composition other has no step"],
        0,
    ),
    "no reconcile, and no answer yet": (
        [MINE, *REVISIONS, unsynced("mine", "mine-1")],
        ["ModelReplica team-a/new: Crossplane cannot reconcile it: no function"],
        [
            "Composition mine: is a copy",
            "ModelReplica team-a/new: has none of our conditions",
        ],
        1,
    ),
    "a tier that is not ready": (
        [OF_TIERS, revision("tiers-1", OURS), starting("tiers", "tiers-1")],
        [],
        ["KVOffloadTier kv/chat: AgentsReady is False (Starting): 2 of 3"],
        1,
    ),
    "a webhook of others": (
        [*WELL, webhook("all", "*"), webhook("pods", ""), webhook("tiers", "modelplane.ai")],
        [],
        [
            "MutatingWebhookConfiguration all: webhook all.example.org may change",
            "MutatingWebhookConfiguration tiers: webhook tiers.example.org may change",
        ],
        1,
    ),
    "a sick function": (
        [*WELL[:-1], function("False")],
        [f"Function {OURS}: is not healthy: no image"],
        [],
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_doctor_findings(name: str) -> None:
    documents, problems, notes, healthy = CASES[name]
    if not any(each.get("kind") == "Function" for each in documents):
        documents = [*documents, function()]
    before = copy.deepcopy(documents)
    report = doctor.examine(documents, OURS)
    assert documents == before
    said = [(f.is_problem, f"{f.subject}: {f.message}") for f in report.findings]
    assert [p for p, _ in said] == [True] * len(problems) + [False] * len(notes)
    for (_, text), want in zip(said, [*problems, *notes], strict=True):
        assert text.startswith(want)
    assert report.healthy == healthy


_JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "spec", "kind", "name", "items"]), inner)
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(["kind", "metadata", "spec", "items"]), _JSON)))
def test_doctor_never_raises(documents: list[Document]) -> None:
    doctor.examine(documents, OURS)


RUBBISH = (None, 1, "x", [], {}, [1], [None], {"a": 1}, datetime.date(2026, 1, 1))


def _paths(value: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    """The paths of all that stands in a document."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (*above, key)
        yield from _paths(inner, *above, key)


COHERENT = [
    composition("theirs", "x", OURS, **PACKAGED),
    composition("mine", "x", OURS, annotations={ANNOTATION_COPY_OF: "theirs@0"}),
    definition(PACKAGED, defaultCompositionRef={"name": "mine"}),
    replica("qwen", "theirs", "theirs-1"),
    revision("theirs-1", "x", OURS),
    *policy("mine"),
]


@pytest.mark.parametrize("path", list(_paths(COHERENT)), ids=str)
def test_no_wrong_type_in_a_document_raises(path: tuple[Any, ...]) -> None:
    for rubbish in RUBBISH:
        documents = copy.deepcopy(COHERENT)
        holder: Any = documents
        for key in path[:-1]:
            holder = holder[key]
        if len(path) == 1 and not isinstance(rubbish, dict):
            continue  # files.parse lets no other document through
        holder[path[-1]] = rubbish
        doctor.examine(documents, OURS)
        with contextlib.suppress(InputError):
            packaged.selection(packaged.copied(documents[0], "new", "s", "f", "file"), "theirs")


def test_composite_that_is_not_wired_is_listed() -> None:
    refused = replica("qwen", "theirs", "theirs-1")
    (condition,) = refused["status"]["conditions"]
    condition |= {"status": "False", "reason": "TierNotFound", "message": "There is no tier."}
    report = doctor.examine([refused, revision("theirs-1", "x", OURS)], OURS)
    message = "KVOffloadReady is False (TierNotFound): There is no tier."
    assert report.findings == [doctor.Finding(False, "ModelReplica team-a/qwen", message)]
    assert report.healthy == 1


def test_a_dump_without_functions_says_what_was_not_checked() -> None:
    said = doctor.examine([each for each in WELL if each["kind"] != "Function"], OURS).findings
    assert [(f.is_problem, f.subject) for f in said] == [(False, f"Function {OURS}")]
    assert "was not checked" in said[0].message
