"""Engines that are no Deployment in an Object, over time: bare ones, custom kinds, RayServices."""

import json
from copy import deepcopy
from typing import Any

import pytest

from function.kube import objects
from function.names import ANNOTATION_RECORD, ANNOTATION_TIER
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Document, Outcome, call, observe
from tests.unit.composers.over_time import BACKENDS

KEY, FILES, CONDITION = "e", "configmap-kv-offload", "KVOffloadReady"
STEP = {
    "apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1",
    "kind": "Input",
    "controlPlaneCluster": "gpu",
    "paths": [{"kind": "Served", "path": "spec.template"}],
}
POOL = {"lmcache": None, **BACKENDS["pool"]}


def manifest_of(kind: str, tier: str, image: str) -> Document:
    container = {"name": "engine", "image": image, "command": ["vllm", "serve"], "args": [d.MODEL]}
    spec = {"containers": [container]}
    template = {"metadata": {"annotations": {ANNOTATION_TIER: tier}}, "spec": spec}
    preset = {"name": "main", "image": image, "env": [{"name": "VLLM_ADDITIONAL_ARGS"}]}
    clique = {"name": "e", "annotations": {ANNOTATION_TIER: tier}}
    shapes: dict[str, tuple[str, Document]] = {
        "Served": ("example.org/v1", {"template": template}),
        "RayService": (
            "ray.io/v1",
            {"rayClusterConfig": {"headGroupSpec": {"template": template}}},
        ),
        "InferenceService": (
            "serving.kserve.io/v1beta1",
            {"predictor": {"annotations": {ANNOTATION_TIER: tier}} | spec},
        ),
        "LLMInferenceService": (  # its command is KServe's
            "serving.kserve.io/v1alpha1",
            {
                "annotations": {ANNOTATION_TIER: tier},
                "model": {"uri": f"hf://{d.MODEL}", "name": d.MODEL},
                "template": {"containers": [preset]},
            },
        ),
        "PodCliqueSet": (
            "grove.io/v1alpha1",
            {
                "replicas": 1,
                "template": {"cliques": [clique | {"spec": {"replicas": 1, "podSpec": spec}}]},
            },
        ),
        "LeaderWorkerSet": (
            "leaderworkerset.x-k8s.io/v1",
            {
                "replicas": 1,
                "leaderWorkerTemplate": {
                    "size": 2,
                    "leaderTemplate": template,
                    "workerTemplate": template,
                },
            },
        ),
        "Deployment": ("apps/v1", {"template": template}),
        "StatefulSet": ("apps/v1", {"template": template}),
        "DaemonSet": ("apps/v1", {"template": template}),
    }
    api_version, body = shapes[kind]
    metadata = {"name": "x", "namespace": "default"}
    return deepcopy({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": body})


def engine(kind: str, tier: str = "chat", image: str = d.IMAGE, *, bare: bool = False) -> Document:
    made = d.engine()
    made["spec"]["forProvider"]["manifest"] = manifest_of(kind, tier, image)
    return made["spec"]["forProvider"]["manifest"] if bare else made


def run(document: Document, observed: dict[str, Any], *tiers: Document) -> Outcome:
    required: dict[str, Any] = {}
    for tier in tiers or (d.ready_tier(),):
        required |= d.requirements(tier, name=tier["metadata"]["name"])
    return call(
        d.replica(), step_input=STEP, desired={KEY: document}, observed=observed, required=required
    )


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("kind", ["Served", "RayService", "Deployment", "LLMInferenceService"])
def test_an_edit_that_is_refused_leaves_the_pods_as_they_run(kind: str, *, bare: bool) -> None:
    tiers = d.ready_tier("x"), d.ready_tier("y")
    got = run(engine(kind, "y", bare=bare), {}, *tiers)
    before = got.desired[KEY]
    assert got.conditions[CONDITION] == ("True", "Wired")
    for _ in range(2):
        edited = engine(kind, "x", "vllm/vllm-openai:v0.7.3", bare=bare)
        got = run(edited, observe(got), *tiers)
        assert got.conditions[CONDITION] == ("False", "EngineUnsupported")
        assert "Its pods stay as they run" in got.messages[CONDITION]
        assert got.desired[KEY]["spec"] == before["spec"]


def test_an_engine_that_knative_named_is_wired() -> None:
    document = engine("Served", bare=True)
    del document["spec"]["template"]["spec"]["containers"][0]["name"]
    first = run(document, {})
    seen = deepcopy(observe(first))
    container = seen[KEY]["spec"]["template"]["spec"]["containers"][0]
    container |= {"name": "user-container", "args": [*container["args"], "--seed=1"]}
    for tier in (d.ready_tier(), d.ready_tier(startupTimeoutSeconds=900)):
        got = run(document, seen, tier)
        assert got.conditions[CONDITION] == ("True", "Wired")
        assert got.desired[KEY]["spec"] == first.desired[KEY]["spec"]


@pytest.mark.parametrize("update", ["OnChange", "Rolling", "Pinned"])
def test_an_engine_that_kserve_renamed_keeps_its_wiring(update: str) -> None:
    wiring = {"update": update}
    document = engine("InferenceService", bare=True)
    first = run(document, {}, d.ready_tier(wiring=wiring))
    seen = deepcopy(observe(first))
    seen[KEY]["spec"]["predictor"]["containers"][0]["name"] = "kserve-container"
    edited = d.ready_tier(startupTimeoutSeconds=900, wiring=wiring)
    gone = {key: [] for key in d.requirements(edited)}
    for required in (d.requirements(edited), gone):
        got = call(d.replica(), desired={KEY: document}, observed=seen, required=required)
        assert got.desired[KEY]["spec"] == first.desired[KEY]["spec"]
    changed = deepcopy(document)
    changed["spec"]["predictor"]["containers"][0]["args"] += ["--seed=1"]
    got = run(changed, seen, edited)
    assert ("900" in str(got.desired[KEY]["spec"])) == (update != "Pinned")


# Status of a bare workload all of whose pods are up; the API server gives it no condition Ready.
UP = {
    "Deployment": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1},
    "StatefulSet": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1},
    "DaemonSet": {
        "desiredNumberScheduled": 2,
        "currentNumberScheduled": 2,
        "updatedNumberScheduled": 2,
        "numberReady": 2,
    },
}
NONE_NEW = {"updatedReplicas": 0, "updatedNumberScheduled": 0}


@pytest.mark.parametrize("kind", UP)
def test_a_bare_workload_whose_pods_are_up_ends_its_turn(kind: str) -> None:
    tier = d.ready_tier(wiring={"update": "Rolling"})
    document = engine(kind, bare=True)
    seen = deepcopy(observe(run(document, {}, tier)))
    progress = "modelplane.ai/kv-offload-progress"
    for status, said in ((UP[kind], "Current"), (UP[kind] | NONE_NEW, "Moving")):
        seen[KEY]["status"] = {"conditions": [{"type": "Available", "status": "True"}], **status}
        got = run(document, seen, tier)
        (usage,) = (it for it in got.desired.values() if it["kind"] == "Usage")
        assert usage["metadata"]["annotations"][progress] == said


# conditions of a bare workload that counts no pods -> its progress
SHOWN: dict[str, tuple[list[Document], str]] = {
    "shows nothing": ([], "Current"),
    "ready": ([{"type": "Ready", "status": "True"}], "Current"),
    "not ready": ([{"type": "Ready", "status": "False"}], "Moving"),
    "does not know": ([{"type": "Ready", "status": "Unknown"}], "Moving"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_bare_workload_that_counts_nothing_ends_its_turn_as_far_as_it_shows(name: str) -> None:
    conditions, progress = SHOWN[name]
    tier = d.ready_tier(wiring={"update": "Rolling"})
    document = engine("RayService", bare=True)
    seen = deepcopy(observe(run(document, {}, tier)))
    seen[KEY]["status"] = {"conditions": conditions}
    got = run(document, seen, tier)
    (usage,) = (it for it in got.desired.values() if it["kind"] == "Usage")
    assert usage["metadata"]["annotations"]["modelplane.ai/kv-offload-progress"] == progress


@pytest.mark.parametrize("kind", ["RayService", "PodCliqueSet", "Served"])
def test_files_of_the_wiring_before_stay_where_nothing_counts_pods(kind: str) -> None:
    first = run(engine(kind), {})
    old = first.desired[FILES]["spec"]["forProvider"]["manifest"]["data"].keys()
    pool = d.ready_tier("pool", **POOL)
    got = run(engine(kind, "pool"), observe(first), pool)
    for _ in range(3):
        assert old <= got.desired[FILES]["spec"]["forProvider"]["manifest"]["data"].keys()
        got = run(engine(kind, "pool"), observe(got), pool)


def unasked(document: Document) -> Document:
    """The workload when it names no tier any more."""
    made: Document = json.loads(json.dumps(document).replace(ANNOTATION_TIER, "x"))
    return made


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("kind", ["RayService", "PodCliqueSet", "Served"])
def test_files_stay_for_a_workload_that_leaves_where_nothing_counts_pods(
    kind: str, *, bare: bool
) -> None:
    document = engine(kind, bare=bare)
    got = run(document, {})
    old = objects.unwrap(got.desired[FILES]) or {}
    for _ in range(4):
        got = run(unasked(document), observe(got))
        assert ANNOTATION_RECORD not in str(got.desired[KEY])
        kept = objects.unwrap(got.desired[FILES]) or {}
        assert kept["data"] == old["data"]
    others = {"other": engine("Deployment", bare=bare)}
    assert FILES not in call(d.replica(), desired=others, observed=observe(got)).desired


@pytest.mark.parametrize("bare", [True, False])
def test_files_stay_where_they_are_not_written_once_when_a_workload_leaves(*, bare: bool) -> None:
    """Its record is gone then."""
    document = engine("RayService", bare=bare)
    first = run(document, {})
    files = objects.unwrap(first.desired[FILES]) or {}
    marks = first.desired[FILES]["metadata"]["annotations"]
    again = run(document, observe(first)).desired[FILES]
    assert again["metadata"]["annotations"] == marks, "written once"
    assert bare or "crossplane.io/external-name" in marks
    got = run(unasked(document), observe(first))
    for _ in range(2):
        got = run(unasked(document), {**observe(got), FILES: observe(first)[FILES]})
        assert (objects.unwrap(got.desired[FILES]) or {})["data"] == files["data"]


def test_files_of_an_earlier_release_stay_for_a_workload_that_leaves() -> None:
    """It named no workload in them."""
    document = engine("RayService")
    seen = deepcopy(observe(run(document, {})))
    del seen[FILES]["metadata"]["annotations"]
    got = run(unasked(document), seen)
    for _ in range(2):
        assert FILES in got.desired
        got = run(unasked(document), observe(got))


def test_files_of_a_workload_that_left_stay_where_another_one_moves_on() -> None:
    """The other has the same files when the first leaves, and other ones then."""
    both = {KEY: engine("RayService"), "other": engine("Deployment")}
    both["other"]["spec"]["forProvider"]["manifest"]["metadata"]["name"] = "other"

    def step(desired: dict[str, Document], observed: dict[str, Any], tier: str = "chat") -> Outcome:
        required = d.requirements(d.ready_tier()) | d.requirements(
            d.ready_tier("pool", **POOL), name="pool"
        )
        desired = {KEY: desired[KEY], "other": engine("Deployment", tier)}
        return call(
            d.replica(), step_input=STEP, desired=desired, observed=observed, required=required
        )

    got = step(both, {})
    old = got.desired[FILES]["spec"]["forProvider"]["manifest"]["data"].keys()
    left = {KEY: unasked(both[KEY])}
    for tier in ("chat", "chat", "pool", "pool", "pool"):
        got = step(left, observe(got), tier)
        assert old <= got.desired[FILES]["spec"]["forProvider"]["manifest"]["data"].keys()


def test_an_upgrade_that_its_controller_has_not_seen_is_not_rolled_out() -> None:
    tier = d.ready_tier(wiring={"update": "Rolling"})
    seen = deepcopy(observe(run(engine("RayService"), {}, tier)))
    there = seen[KEY]["status"]["atProvider"]["manifest"]
    there["metadata"] = {**there["metadata"], "generation": 2}
    there["status"] = {"observedGeneration": 1}
    got = run(engine("RayService"), seen, tier)
    (usage,) = (it for it in got.desired.values() if it["kind"] == "Usage")
    assert usage["metadata"]["annotations"]["modelplane.ai/kv-offload-progress"] == "Moving"


# How the record of a wired engine is damaged.
DAMAGED: dict[str, Any] = {
    "no templates": lambda record: record.pop("templates"),
    "a template more": lambda record: record["templates"].update(
        {"spec.other": next(iter(record["templates"].values()))}
    ),
    "no engines": lambda record: record.pop("engines"),
    "another container": lambda record: next(iter(record["templates"].values())).update(
        container="gone"
    ),
}


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("name", DAMAGED)
def test_an_engine_with_a_damaged_record_stays_wired(name: str, *, bare: bool) -> None:
    document = engine("Deployment", bare=bare)
    first = run(document, {})
    seen = deepcopy(observe(first))  # what was decoded is shared
    marks = seen[KEY]["metadata"]["annotations"]
    record = json.loads(marks[ANNOTATION_RECORD])
    DAMAGED[name](record)
    marks[ANNOTATION_RECORD] = json.dumps(record)
    for _ in range(2):
        got = run(document, seen)
        assert got.conditions[CONDITION] == ("True", "Wired")
        assert "unwired" not in got.messages[CONDITION]
        assert got.desired[KEY]["spec"] == first.desired[KEY]["spec"]
        assert got.desired.keys() == first.desired.keys(), "its Usage and its files"
        seen = observe(got)


@pytest.mark.parametrize("update", ["OnChange", "Rolling", "Pinned"])
@pytest.mark.parametrize("name", ["no engines", "another container"])
@pytest.mark.parametrize("bare", [True, False])
def test_a_record_that_does_not_fit_moves_no_pod(update: str, name: str, *, bare: bool) -> None:
    """A later release may read records in another way: what runs as it was applied stays."""
    document = engine("Deployment", bare=bare)
    wiring = {"update": update}
    first = run(document, {}, d.ready_tier(wiring=wiring))
    damaged = deepcopy(observe(first))
    record = json.loads(damaged[KEY]["metadata"]["annotations"][ANNOTATION_RECORD])
    DAMAGED[name](record)
    damaged[KEY]["metadata"]["annotations"][ANNOTATION_RECORD] = json.dumps(record)
    edited = d.ready_tier(startupTimeoutSeconds=900, wiring=wiring)
    gone = {key: [] for key in d.requirements(d.ready_tier())}
    for required in (d.requirements(edited), d.requirements(d.unready_tier()), gone):
        seen = damaged
        for _ in range(3):
            got = call(
                d.replica(),
                step_input=STEP,
                desired={KEY: document},
                observed=seen,
                required=required,
            )
            assert got.desired[KEY]["spec"] == first.desired[KEY]["spec"]
            assert got.desired.keys() == first.desired.keys(), "its Usage and its files"
            assert "does not fit the pod any more" in got.messages[CONDITION]
            seen = observe(got)


@pytest.mark.parametrize("name", ["no engines", "another container"])
def test_a_record_that_does_not_fit_is_made_anew_where_it_moves_no_pod(name: str) -> None:
    document = engine("Deployment")
    first = run(document, {})
    seen = deepcopy(observe(first))
    record = json.loads(seen[KEY]["metadata"]["annotations"][ANNOTATION_RECORD])
    DAMAGED[name](record)
    seen[KEY]["metadata"]["annotations"][ANNOTATION_RECORD] = json.dumps(record)
    got = run(document, seen)
    assert got.desired[KEY] == first.desired[KEY]
    assert "Its record was replaced: it does not fit the pod any more" in got.messages[CONDITION]


NATIVE: dict[str, Any] = {"backend": "Native", "lmcache": None}


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "PodCliqueSet"])
def test_a_record_that_lacks_a_template_unwires_none(kind: str, *, bare: bool) -> None:
    document = engine(kind, bare=bare)
    if kind == "PodCliqueSet":  # an engine of its own in each
        cliques = (document if bare else objects.unwrap(document))["spec"]["template"]["cliques"]
        cliques.append(deepcopy(cliques[0]) | {"name": "f"})
    tier = d.ready_tier(**NATIVE, native={"cpu": {"sizeGiB": 10}})
    first = run(document, {}, tier)
    seen = deepcopy(observe(first))
    record = json.loads(seen[KEY]["metadata"]["annotations"][ANNOTATION_RECORD])
    del record["templates"][max(record["templates"])]
    if bare:  # the API server has set defaults
        text = json.dumps(seen[KEY]["spec"])
        text = text.replace('"containers"', '"dnsPolicy": "ClusterFirst", "containers"')
        seen[KEY]["spec"] = json.loads(text)
    seen[KEY]["metadata"]["annotations"][ANNOTATION_RECORD] = json.dumps(record)
    edited = {**NATIVE, "native": {"cpu": {"sizeGiB": 12}}}
    gone = {key: [] for key in d.requirements(tier)}
    for tiers in ([tier], [d.ready_tier(**edited)], [d.unready_tier(**edited)], []):
        required = d.requirements(*tiers) if tiers else gone
        got = call(d.replica(), desired={KEY: document}, observed=seen, required=required)
        assert got.desired[KEY]["spec"] in (first.desired[KEY]["spec"], seen[KEY]["spec"])
        assert got.desired.keys() == first.desired.keys(), "its Usage"


# name: (which templates are gone, what the tier is now, is the workload still wired?)
GANGS: dict[str, tuple[list[str], Document, bool]] = {
    "one, and an edit": (
        ["leaderTemplate"],
        d.ready_tier(**NATIVE, native={"cpu": {"sizeGiB": 12}}),
        True,
    ),
    "one, and no edit": (
        ["leaderTemplate"],
        d.ready_tier(**NATIVE, native={"cpu": {"sizeGiB": 10}}),
        True,
    ),
    "one, and it starts": (
        ["workerTemplate"],
        d.unready_tier(**NATIVE, native={"cpu": {"sizeGiB": 10}}),
        True,
    ),
    "all, and it starts": (
        ["leaderTemplate", "workerTemplate"],
        d.unready_tier(**NATIVE, native={"cpu": {"sizeGiB": 10}}),
        False,
    ),
}


@pytest.mark.parametrize("name", GANGS)
def test_a_bare_gang_of_which_a_template_is_gone_stays_wired(name: str) -> None:
    gone, tier, stays = GANGS[name]
    document = engine("LeaderWorkerSet", bare=True)
    first = run(document, {}, d.ready_tier(**NATIVE, native={"cpu": {"sizeGiB": 10}}))
    assert first.conditions[CONDITION] == ("True", "Wired"), first.messages
    seen = deepcopy(observe(first))
    for template in gone:
        del seen[KEY]["spec"]["leaderWorkerTemplate"][template]
    for _ in range(2):
        got = run(document, seen, tier)
        wired = got.desired[KEY]["spec"] == first.desired[KEY]["spec"]
        assert wired == stays, got.messages
        assert not stays or any(it["kind"] == "Usage" for it in got.desired.values())
        seen = observe(got)


def test_each_of_several_engines_is_named() -> None:
    document = engine("PodCliqueSet")
    cliques = document["spec"]["forProvider"]["manifest"]["spec"]["template"]["cliques"]
    cliques.append({**deepcopy(cliques[0]), "name": "decode"})
    cliques[0]["name"] = "prefill"
    said = "vLLM 0.32.0 (engine by the command, version by the image's tag), cache identity"
    assert run(document, {}).messages[CONDITION] == (
        f"e: Wired to LMCache tier modelplane-system/chat: prefill: {said} 8ced3c6c9b98."
        f" decode: {said} 8ced3c6c9b98."
    )
