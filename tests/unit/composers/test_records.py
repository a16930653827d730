"""Records and labels that this function did not write give no wiring."""

import json
from copy import deepcopy
from typing import Any

import pytest

import programs
from function.api.input import Input
from function.contract.injection import Injection
from function.kube import objects, quantity
from function.pods import offload_request, replay, running
from function.pods import record as records
from tests.unit.composers import documents as d
from tests.unit.composers import release
from tests.unit.composers.calls import Document, Outcome, call, observe, observed

KEY = "model-serving-main"
CONDITION = "KVOffloadReady"
RECORD = "modelplane.ai/kv-offload-record"
LABEL = "modelplane.ai/kv-offload"
TIER = {"modelplane.ai/kv-offload-tier": "chat"}
OFF = TIER | {"modelplane.ai/kv-offload-policy": "Off"}
OPTIONAL = TIER | {"modelplane.ai/kv-offload-policy": "Optional"}
CLOSED = {"allowedNamespaces": {"from": "Names", "names": ["team-b"]}}


def engine(annotations: dict[str, str] = TIER, *, bare: bool = False) -> Document:
    document = d.engine(annotations)
    if not bare:
        return document
    manifest: Document = document["spec"]["forProvider"]["manifest"]
    return manifest


def pod(document: Document) -> Document:
    found: Document = document.get("spec", {}).get("forProvider", {}).get("manifest", document)
    return found["spec"]["template"]


def wired(bare: bool = False, annotations: dict[str, str] = TIER, **spec: Any) -> Outcome:
    """What an admitted consumer gets; with a copy of the tier anyone can make this."""
    tier = d.ready_tier(**spec)
    if bare:
        del tier["status"]["providerConfigRef"]
    got = run(engine(annotations, bare=bare), tiers=[tier])
    assert got.conditions[CONDITION] == ("True", "Wired"), got.messages
    return got


def run(
    document: Document,
    seen: dict[str, Document] | None = None,
    tiers: Any = None,
    name: str = "chat",
) -> Outcome:
    required = None if tiers is None else d.requirements(*tiers, name=name)
    return call(d.replica(), desired={KEY: document}, observed=seen, required=required)


def record_of(got: Outcome) -> str:
    text: str = got.desired[KEY]["metadata"]["annotations"][RECORD]
    return text


def with_record(document: Document, text: str) -> Document:
    metadata = document.get("metadata", {})
    annotations = metadata.get("annotations", {}) | {RECORD: text}
    return document | {"metadata": metadata | {"annotations": annotations}}


def is_wired(document: Document) -> bool:
    text = json.dumps(pod(document))
    return LABEL + '"' in text or "kv-transfer-config" in text


def closed(bare: bool) -> Document:
    tier = d.ready_tier(**CLOSED)
    if bare:
        del tier["status"]["providerConfigRef"]
    return tier


# What becomes of the tier: what requirements find; None is "not resolved".
STATES: dict[str, Any] = {
    "does not admit": lambda bare: [closed(bare)],
    "gone": lambda bare: [],
    "unresolved": lambda bare: None,
    "starting": lambda bare: [d.unready_tier()],
    "refused": lambda bare: [d.refused_tier()],
}


@pytest.mark.parametrize("bare", [False, True], ids=["object", "bare"])
@pytest.mark.parametrize("policy", [TIER, OPTIONAL], ids=["Required", "Optional"])
@pytest.mark.parametrize("state", STATES)
def test_record_brought_along_under_policy_off_gives_no_wiring(
    state: str, policy: dict[str, str], bare: bool
) -> None:
    stolen = record_of(wired(bare, policy))
    first = run(with_record(engine(OFF, bare=bare), stolen), tiers=[closed(bare)])
    assert RECORD not in json.dumps(first.desired)
    document = with_record(engine(policy, bare=bare), stolen)
    second = run(document, observe(first), STATES[state](bare))
    assert not is_wired(second.desired[KEY]), second.messages
    assert stolen not in json.dumps(second.desired)
    assert "configmap-kv-offload" not in second.desired


BROUGHT = {
    "policy Off": OFF,
    "no request": {},
    "an invalid request": {"modelplane.ai/kv-offload-tier": "a/b/c"},
    "tier": TIER,
}


@pytest.mark.parametrize("bare", [False, True], ids=["object", "bare"])
@pytest.mark.parametrize("name", BROUGHT)
def test_desired_record_is_removed_and_reported(name: str, bare: bool) -> None:
    stolen = record_of(wired(bare))
    for document in (with_record(engine(BROUGHT[name], bare=bare), stolen),):
        got = run(document, {KEY: observed(KEY, engine(bare=bare))}, [closed(bare)])
        assert RECORD not in json.dumps(got.desired)
        assert f"{RECORD} under metadata.annotations" in got.messages[CONDITION]


def test_desired_record_inside_an_object_and_on_other_resources_is_removed() -> None:
    document = engine({})
    manifest = document["spec"]["forProvider"]["manifest"]
    manifest["metadata"]["annotations"] = {RECORD: "{}", "kept": "yes"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {RECORD: "{}"}}}
    got = call(d.replica(), desired={KEY: document, "other": other})
    assert RECORD not in json.dumps(got.desired)
    assert "kept" in json.dumps(got.desired)


@pytest.mark.parametrize("state", STATES)
def test_record_of_an_older_function_on_unwired_pods_gives_no_wiring(state: str) -> None:
    """A release that let it through left it on the resource; the pods run as their author wrote."""
    seen = {KEY: with_record(observed(KEY, engine()), record_of(wired()))}
    got = run(engine(), seen, STATES[state](False))
    assert not is_wired(got.desired[KEY]), got.messages
    assert "configmap-kv-offload" not in got.desired


def forge(text: str, **fields: Any) -> str:
    """A record with other things in its injection than the tier gave."""
    data = json.loads(text)
    (path,) = data["templates"]
    data["templates"][path]["injection"] |= fields
    forged: str = json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert records.load(forged)[0] is not None
    return forged


def _connector(host: str) -> Document:
    injection = json.loads(record_of(wired()))["templates"]["spec.template"]["injection"]
    connector: Document = deepcopy(injection["connector"])
    connector["kv_connector_extra_config"]["lmcache.mp.host"] = host
    return connector


VOLUME, SECRET = "kv-offload-x", {"name": "stolen", "key": "k"}
FORGED: dict[str, tuple[str, Any]] = {
    "the node's /dev/shm": ("hostPath", {"shm": {"bytes": 0, "host": True}}),
    "a Secret": (
        "stolen",
        {"env": [{"name": "LMCACHE_RESP_PASSWORD", "valueFrom": {"secretKeyRef": SECRET}}]},
    ),
    "a foreign host": ("tcp://evil", {"connector": None}),
    "GPUs": ("nvidia.com/gpu", {"resources": {"nvidia.com/gpu": 8}}),
    "a capability": ("IPC_LOCK", {"capabilities": ["IPC_LOCK"]}),
    "another label": ("evil", {"labels": {LABEL: "evil"}}),
    "a claim": (
        "stolen",
        {
            "volumes": [{"name": VOLUME, "persistentVolumeClaim": {"claimName": "stolen"}}],
            "mounts": [{"name": VOLUME, "mountPath": "/etc/kv-offload/x"}],
        },
    ),
}  # fmt: skip
FORGERS = STATES | {
    "ready": lambda bare: [d.ready_tier()],
    "ready, rolling": lambda bare: [d.ready_tier(wiring={"update": "Rolling"})],
    "ready, pinned": lambda bare: [d.ready_tier(wiring={"update": "Pinned"})],
}


@pytest.mark.parametrize("runs_wired", [False, True], ids=["unwired", "wired"])
@pytest.mark.parametrize("state", FORGERS)
@pytest.mark.parametrize("name", FORGED)
def test_forged_record_adds_nothing_to_pods(name: str, state: str, runs_wired: bool) -> None:
    sign, fields = FORGED[name]
    if "connector" in fields:
        fields = {"connector": _connector("tcp://evil")}
    ours = wired()
    text = forge(record_of(ours), **fields)
    seen = observe(ours) if runs_wired else {KEY: observed(KEY, engine())}
    seen[KEY] = with_record(seen[KEY], text)
    for document in (engine(), engine(TIER | {"changed": "yes"})):
        got = run(document, seen, FORGERS[state](False))
        assert sign not in json.dumps(pod(got.desired[KEY])), got.messages
        # LMCache never adds a capability: such a record counts for nothing. A template that
        # changes while nothing is looked up yet is judged in the next call.
        is_lost = (name == "a capability" and "ready" not in state) or (
            state == "unresolved" and document != engine()
        )
        if runs_wired and state != "does not admit" and not is_lost:
            assert is_wired(got.desired[KEY]), got.messages


def test_forged_file_is_not_composed() -> None:
    """Mooncake's client reads its hosts from a file, whose name holds its digest."""
    spec = {"backend": "Mooncake", "lmcache": None}
    spec["mooncake"] = {"protocol": "tcp", "store": {"sizeGiB": 8}}
    ours = wired(**spec)
    files = json.loads(record_of(ours))["templates"]["spec.template"]["injection"]["files"]
    forged = forge(record_of(ours), files=dict.fromkeys(files, '{"master": "evil"}'))
    for tiers in (None, [], [d.unready_tier(**spec)], [d.ready_tier(**spec)]):
        seen = observe(ours)
        seen[KEY] = with_record(seen[KEY], forged)
        got = run(engine(), seen, tiers)
        assert "evil" not in json.dumps(got.desired.get("configmap-kv-offload", {})), got.messages


# Engines that run wired stay so -----------------------------------------------------------------


def served(document: Document) -> Document:
    """A bare Deployment as an API server and webhooks leave it."""
    found = deepcopy(document)
    found["metadata"]["namespace"] = "team-a"
    spec = pod(found)["spec"]
    spec |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
    container = spec["containers"][0]
    container |= {"imagePullPolicy": "IfNotPresent", "image": container["image"] + "@sha256:1"}
    spec["containers"] = [{"name": "sidecar", "image": "proxy"}, container]
    pod(found)["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "now"
    return found


def test_record_of_pods_in_another_namespace_gives_no_wiring() -> None:
    """Secrets and claims are named without a namespace: the pods' own."""
    moved = engine()
    moved["spec"]["forProvider"]["manifest"]["metadata"]["namespace"] = "other"
    got = run(moved, observe(wired()), [])
    assert not is_wired(got.desired[KEY]), got.messages


@pytest.mark.parametrize("bare", [False, True], ids=["object", "bare"])
@pytest.mark.parametrize("state", STATES)
def test_running_engine_stays_wired(state: str, bare: bool) -> None:
    ours = wired(bare)
    seen = observe(ours)
    if bare:
        seen[KEY] = served(seen[KEY])
    got = run(engine(bare=bare), seen, STATES[state](bare))
    assert pod(got.desired[KEY]) == pod(ours.desired[KEY]), got.messages
    assert record_of(got) == record_of(ours)


def mutated(node: Any) -> Any:
    """A document as an API server and webhooks may leave it, wherever they set something."""
    if isinstance(node, list):
        return [mutated(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {key: mutated(value) for key, value in node.items() if value not in (None, "")}
    if "containers" in out:
        out |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
        out["containers"] = [{"name": "sidecar", "image": "proxy"}, *out["containers"]]
    if isinstance(out.get("image"), str):
        out |= {"image": f"{out['image']}@sha256:1", "imagePullPolicy": "Always"}
    for kind in ("requests", "limits"):
        if out.get("memory") is None and isinstance(out.get(kind), dict) and "memory" in out[kind]:
            size = quantity.parse(out[kind]["memory"])
            out[kind] = out[kind] | {"memory": str(size)}
    return out


@pytest.mark.parametrize("was", release.fixtures(), ids=lambda was: was.name)
def test_engines_of_a_release_run_with_their_records(was: release.Fixture) -> None:
    """In every kind of workload, whatever the API server and webhooks have set besides."""
    seen = {key: mutated(document) for key, document in was.wired.items()}
    for key, document in was.desired.items():
        text = was.wired[key].get("metadata", {}).get("annotations", {}).get(RECORD, "")
        record = records.load(text)[0]
        if record is None or not record.wired:
            continue
        reference = offload_request.composite_reference(was.composite)
        fields = {k: v for k, v in (was.given or {}).items() if k not in ("apiVersion", "kind")}
        given = Input.model_validate(fields)
        found = offload_request.find(key, document, reference, given, text)
        assert found is not None
        now, then = objects.unwrap(seen[key]), objects.unwrap(was.wired[key])
        assert now is not None and then is not None
        assert running.has(found, replay.replay(found, record, given), now)
        assert running.was_applied(found, record, then, given)
        assert not running.has(found, replay.replay(found, record, given), found.manifest)
        assert not running.was_applied(found, record, found.manifest, given)


def test_own_program_may_change_under_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record chooses what an init container waits for; the program is the function's."""
    found = offload_request.find(KEY, engine(), None, Input(), "")
    assert found is not None

    def waiting_for(address: str) -> Document:
        wait = {"name": "kv-offload-await-store", "addresses": [address], "seconds": 5}
        kept = records.TemplateRecord(Injection(waits=(wait,)), "engine")
        facts = {"": {"engine": "vLLM"}}
        templates = {"spec.template": kept}
        record = records.Record(records.WIRED, "a/b", engines=facts, templates=templates)
        return replay.replay(found, record, Input())

    before = waiting_for("store:1")
    monkeypatch.setattr(programs, "text", lambda name: "another")
    after = waiting_for("store:1")
    assert before != after
    assert running.has(found, after, before)
    assert not running.has(found, waiting_for("evil:1"), before)


def test_namespace_no_longer_admitted_keeps_only_known_consumers() -> None:
    ours = wired()
    engine_only = {KEY: observe(ours)[KEY]}
    for tier, seen, stays in (
        (closed(False), engine_only, False),
        (closed(False), observe(ours), True),
    ):
        got = run(engine(), seen, [tier])
        assert is_wired(got.desired[KEY]) == stays, got.messages
        assert got.conditions[CONDITION] == ("False", "NamespaceNotAllowed")


def other_tier(bare: bool, **spec: Any) -> Document:
    tier = d.ready_tier("other", **spec)
    if bare:
        del tier["status"]["providerConfigRef"]
    return tier


@pytest.mark.parametrize("bare", [False, True], ids=["object", "bare"])
@pytest.mark.parametrize(
    "spec", [CLOSED, {"lmcache": {"l1": {"sizeGiB": -1}}}], ids=["closed", "invalid"]
)
def test_edit_that_names_a_tier_that_refuses_waits(spec: dict[str, Any], bare: bool) -> None:
    ours = wired(bare)
    seen = observe(ours)
    if bare:
        seen[KEY] = served(seen[KEY])
    asks = {"modelplane.ai/kv-offload-tier": "other"}
    got = run(engine(asks, bare=bare), seen, [other_tier(bare, **spec)], "other")
    assert pod(got.desired[KEY]) == pod(seen[KEY]), got.messages
    assert record_of(got) == record_of(ours)
    assert got.conditions[CONDITION][0] == "False"
    assert [key for key in got.desired if key.startswith("usage-")] == [
        key for key in ours.desired if key.startswith("usage-")
    ]


def test_record_of_another_tier_without_a_usage_is_dropped() -> None:
    ours = wired()
    seen = {KEY: observe(ours)[KEY]}
    asks = {"modelplane.ai/kv-offload-tier": "other"}
    got = run(engine(asks), seen, [other_tier(False, **CLOSED)], "other")
    assert not is_wired(got.desired[KEY]), got.messages


def bare_tier(**spec: Any) -> Document:
    """A ready tier of the control plane's own cluster."""
    tier = d.ready_tier(**spec)
    del tier["status"]["providerConfigRef"]
    return tier


def stripped(document: Document) -> Document:
    """A bare Deployment of which a policy webhook has taken injected variables away."""
    found = served(document)
    for container in pod(found)["spec"]["containers"]:
        container.pop("env", None)
    return found


@pytest.mark.parametrize("state", STATES)
def test_bare_engine_that_lacks_an_injected_thing_stays_as_it_runs(state: str) -> None:
    ours = wired(bare=True)
    assert "env" in pod(ours.desired[KEY])["spec"]["containers"][0]
    seen = observe(ours)
    seen[KEY] = stripped(seen[KEY])
    got = run(engine(bare=True), seen, STATES[state](True))
    assert pod(got.desired[KEY]) == pod(seen[KEY]), got.messages
    assert record_of(got) == record_of(ours)
    assert "Its pods stay as they run. " in got.messages[CONDITION]
    again = run(engine(bare=True), observe(got), [bare_tier()])
    assert pod(again.desired[KEY]) == pod(ours.desired[KEY]), again.messages


def test_wired_is_said_of_a_bare_engine_that_has_its_wiring() -> None:
    ours = wired(bare=True)
    before = deepcopy(observe(ours)[KEY])  # core has not written this wiring yet
    before["metadata"]["annotations"][RECORD] += " "
    lacks = ("False", "NotApplied")
    for there, want in (
        (observe(ours)[KEY], ("True", "Wired")),
        (served(observe(ours)[KEY]), ("True", "Wired")),
        (stripped(observe(ours)[KEY]), lacks),
        ({**observe(ours)[KEY], "spec": engine(bare=True)["spec"]}, lacks),
        ({**before, "spec": engine(bare=True)["spec"]}, ("True", "Wired")),
    ):
        got = run(engine(bare=True), observe(ours) | {KEY: there}, [bare_tier()])
        assert got.conditions[CONDITION] == want
        assert ("The pods lack a part" in got.messages[CONDITION]) == (want == lacks)
        assert pod(got.desired[KEY]) == pod(ours.desired[KEY])


def test_tier_edit_rolls_no_bare_engine_that_lacks_an_injected_thing() -> None:
    ours = wired(bare=True)
    edited = bare_tier(startupTimeoutSeconds=900)
    seen = observe(ours) | {KEY: stripped(observe(ours)[KEY])}
    got = run(engine(bare=True), seen, [edited])
    assert pod(got.desired[KEY]) == pod(seen[KEY]), got.messages
    assert record_of(got) == record_of(ours)
    assert "It keeps wiring" in got.messages[CONDITION]
    assert got.conditions[CONDITION] == ("False", "NotApplied")
    assert "The pods lack a part of their recorded wiring" in got.messages[CONDITION]
    # Pods that do not start with the connector are not wired.
    pod(seen[KEY])["spec"]["containers"][1]["args"] = [d.MODEL]
    got = run(engine(bare=True), seen, [edited])
    assert "kv-transfer-config" in json.dumps(pod(got.desired[KEY])), got.messages
    assert record_of(got) != record_of(ours)


@pytest.mark.parametrize("edit", [{}, {"changed": "yes"}], ids=["same", "edited"])
@pytest.mark.parametrize("state", STATES)
def test_bare_engine_that_others_changed_and_nothing_marks_stays_as_it_runs(
    state: str, edit: dict[str, str]
) -> None:
    """Its Usage was deleted, its tier is not usable, and its pods still start with the wiring."""
    ours = wired(True)
    seen = {KEY: stripped(observe(ours)[KEY])}
    got = run(engine(TIER | edit, bare=True), seen, STATES[state](True))
    if state == "does not admit":
        assert not is_wired(got.desired[KEY]), got.messages
        return
    assert pod(got.desired[KEY]) == pod(seen[KEY]), got.messages
    assert record_of(got) == record_of(ours)


def test_bare_engine_that_does_not_start_with_its_wiring_is_not_kept() -> None:
    """Its label or its variables prove nothing: whoever writes pods may copy them."""
    seen = {KEY: stripped(observe(wired(True))[KEY])}
    pod(seen[KEY])["spec"]["containers"][1]["args"] = [d.MODEL]
    got = run(engine(bare=True), seen, [])
    assert not is_wired(got.desired[KEY]), got.messages


@pytest.mark.parametrize("has_usage", [True, False], ids=["Usage", "no Usage"])
@pytest.mark.parametrize("state", STATES)
def test_edit_of_a_bare_engine_waits(state: str, has_usage: bool) -> None:
    ours = wired(bare=True)
    seen = observe(ours)
    seen[KEY] = served(seen[KEY])
    if not has_usage:
        seen = {KEY: seen[KEY]}
    got = run(engine(TIER | {"changed": "yes"}, bare=True), seen, STATES[state](True))
    if state == "does not admit" and not has_usage:
        assert not is_wired(got.desired[KEY]), got.messages
        return
    assert pod(got.desired[KEY]) == pod(seen[KEY]), got.messages
    assert "the change of their template waits" in got.messages[CONDITION]


@pytest.mark.parametrize("annotations", [TIER, OPTIONAL], ids=["Required", "Optional"])
@pytest.mark.parametrize("tier", [d.ready_tier(), d.unready_tier()], ids=["ready", "unready"])
@pytest.mark.parametrize("edit", ["", "x", "Unwired"], ids=["lost", "damaged", "Unwired"])
def test_edit_of_a_record_unwires_no_running_engine(
    annotations: dict[str, str], tier: Document, edit: str
) -> None:
    got = wired(annotations=annotations)
    seen = deepcopy(observe(got))
    record = seen[KEY]["metadata"]["annotations"].pop(RECORD)
    if edit:
        said = record.replace('"Wired"', '"Unwired"') if edit == "Unwired" else edit
        seen[KEY]["metadata"]["annotations"][RECORD] = said
    again = run(engine(annotations), seen, [tier])
    assert pod(again.desired[KEY]) == pod(got.desired[KEY])
    assert [key for key in again.desired if key.startswith("usage-")]


def test_edited_tier_keeps_the_recorded_wiring_of_a_running_engine() -> None:
    ours = wired()
    tier = d.ready_tier(startupTimeoutSeconds=900)
    got = run(engine(), observe(ours), [tier])
    assert pod(got.desired[KEY]) == pod(ours.desired[KEY]), got.messages
    assert "It keeps wiring" in got.messages[CONDITION]


# The label alone --------------------------------------------------------------------------------


def labelled(document: Document, value: str = "kv-chat") -> Document:
    document = deepcopy(document)
    pod(document)["metadata"]["labels"][LABEL] = value
    return document


@pytest.mark.parametrize("bare", [False, True], ids=["object", "bare"])
@pytest.mark.parametrize("name", BROUGHT)
def test_label_of_wired_pods_is_not_taken_from_an_author(name: str, bare: bool) -> None:
    annotations = BROUGHT[name]
    document = labelled(engine(annotations, bare=bare))
    seen = {KEY: observed(KEY, engine(annotations, bare=bare))}
    got = run(document, seen, [closed(bare)])
    assert LABEL not in pod(got.desired[KEY])["metadata"]["labels"]
    assert f"{LABEL} under" in got.messages[CONDITION]


@pytest.mark.parametrize("odd", [None, 5, [], {"a": 1}, [{}]], ids=str)
def test_odd_labels_and_records_are_removed(odd: Any) -> None:
    document = engine(TIER)
    pod(document)["metadata"]["labels"][LABEL] = odd
    document["metadata"] = {"annotations": {RECORD: odd}}
    ours = wired()
    for seen in ({}, {KEY: with_record(observed(KEY, document), odd)}, observe(ours)):
        got = run(document, seen, [closed(False)])
        assert not got.fatals
        left = got.desired.get(KEY, {}).get("metadata", {}).get("annotations", {})
        assert left.get(RECORD, "") in ("", record_of(ours))


def test_label_that_ran_before_the_upgrade_stays() -> None:
    document = labelled(engine({}))
    got = run(document, {KEY: observed(KEY, document)}, [])
    assert got.desired[KEY] == document


def test_label_of_our_wiring_goes_when_the_policy_is_off() -> None:
    ours = wired()
    label = pod(ours.desired[KEY])["metadata"]["labels"][LABEL]
    got = run(labelled(engine(OFF), label), observe(ours), [closed(False)])
    assert LABEL not in pod(got.desired[KEY])["metadata"]["labels"]


OURS = {LABEL: "kv-x"}
SELECTORS: dict[str, Document] = {
    "NetworkPolicy": {"podSelector": {"matchLabels": OURS}},
    "Service": {"selector": OURS},
    "Istio's policy": {"workloadSelector": {"labels": OURS}},
    "DestinationRule": {"subsets": [{"name": "kv", "labels": OURS}]},
    "VirtualService": {"http": [{"match": [{"sourceLabels": OURS}]}]},
    "a selector of templates": {"podSelector": {"metadata": {"labels": OURS}}},
}


@pytest.mark.parametrize("name", SELECTORS)
def test_selector_of_the_label_is_not_changed(name: str) -> None:
    policy = {"apiVersion": "example.org/v1", "kind": "Policy", "spec": SELECTORS[name]}
    got = call(d.replica(), desired={"policy": policy})
    assert got.desired == {"policy": policy}


GIVEN: dict[str, tuple[str, str, Document]] = {
    "metadata": ("example.org/v1", "App", {"template": {"metadata": {"labels": OURS}}}),
    "values": ("helm.m.crossplane.io/v1beta1", "Release", {"values": {"podLabels": OURS}}),
    "next to a PodSpec": (
        "serving.kserve.io/v1alpha1",
        "LLMInferenceService",
        {"labels": OURS, "template": {"containers": []}},
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_label_that_pods_are_given_is_removed(name: str) -> None:
    api_version, kind, spec = GIVEN[name]
    made = {"apiVersion": api_version, "kind": kind, "spec": spec}
    got = call(d.replica(), desired={"app": made})
    assert LABEL not in json.dumps(got.desired)


# Our own ModelDeployment ------------------------------------------------------------------------


def test_model_deployment_refuses_our_label() -> None:
    template = {
        "metadata": {"labels": {LABEL: "kv-chat"}},
        "spec": {"containers": [{"name": "engine", "image": d.IMAGE, "args": [d.MODEL]}]},
    }
    engines = [{"name": "main", "members": [{"role": "Standalone", "template": template}]}]
    spec = {"inferenceClusterRef": {"name": "gpu"}, "engines": engines}
    composite = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen", "namespace": "team-a", "uid": "uid-qwen"},
        "spec": {"replicas": 1, "template": {"spec": spec}},
    }
    got = call(composite, step_input=d.COMPOSE, required={"cluster": [d.cluster()]})
    assert got.conditions["Accepted"] == ("False", "Invalid")
    assert "reserved prefix modelplane.ai/" in got.messages["Accepted"]
