"""Every known kind: which templates it holds, and that writing changes only them."""

import contextlib
from copy import deepcopy

import pytest
import yaml

from function.problems import Refused
from function.workloads import find, replace
from tests.unit.kube.test_yamls import BOMB


def tpl(tag, **extra):
    return {"spec": {"containers": [{"name": "engine", "args": [tag]}], **extra}}


def manifest(api_version, kind, spec):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "m"}, "spec": spec}


def base(name, tag):
    return {"name": name, "template": tpl(tag)}


def args(tag):
    return {"spec": {"containers": [{"name": "engine", "args": [tag]}]}}


CLIQUES = "spec.template.cliques"


def clique(name, tag, **spec):
    return {"name": name, "labels": {"a": tag}, "spec": {"podSpec": args(tag)["spec"], **spec}}


def clique_set(cliques, *groups):
    template = {"cliques": cliques, "podCliqueScalingGroups": list(groups)}
    return manifest("grove.io/v1alpha1", "PodCliqueSet", {"replicas": 1, "template": template})


SERVE = """\
applications:
- name: llm
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {model_id: m, model_source: org/m}
      engine_kwargs: {tensor_parallel_size: 2}
"""

LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
RBG1 = ("workloads.x-k8s.io/v1alpha1", "RoleBasedGroup")
RBG2 = ("workloads.x-k8s.io/v1alpha2", "RoleBasedGroup")
KSERVE = ("serving.kserve.io/v1alpha1", "LLMInferenceService")
RAY_PODS = {
    "headGroupSpec": {"template": tpl("head")},
    "workerGroupSpecs": [{"replicas": 3, "template": tpl("w")}, {"template": tpl("x")}],
}

# name: (manifest, {gang: [(path, role, pods, phase, first argument)]})
FOUND = {
    "Pod": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m"}, **tpl("a")},
        {"": [("metadata", "Standalone", 1, "Unified", "a")]},
    ),
    **{
        kind: (
            manifest(api, kind, {"replicas": 3, "template": tpl("a")}),
            {"": [("spec.template", "Standalone", 1, "Unified", "a")]},
        )
        for api, kind in (
            ("apps/v1", "Deployment"),
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "ReplicaSet"),
            ("apps/v1", "DaemonSet"),
            ("batch/v1", "Job"),
            ("v1", "ReplicationController"),
        )
    },
    "LWS with a leader": (
        manifest(
            *LWS,
            {
                "leaderWorkerTemplate": {
                    "size": 4,
                    "leaderTemplate": tpl("l"),
                    "workerTemplate": tpl("w"),
                }
            },
        ),
        {
            "": [
                ("spec.leaderWorkerTemplate.leaderTemplate", "Leader", 1, "Unified", "l"),
                ("spec.leaderWorkerTemplate.workerTemplate", "Worker", 3, "Unified", "w"),
            ]
        },
    ),
    "LWS without a leader, from a Struct": (
        manifest(*LWS, {"leaderWorkerTemplate": {"size": 2.0, "workerTemplate": tpl("w")}}),
        {"": [("spec.leaderWorkerTemplate.workerTemplate", "Member", 2, "Unified", "w")]},
    ),
    "LWS of one pod": (
        manifest(
            *LWS,
            {"leaderWorkerTemplate": {"leaderTemplate": tpl("l"), "workerTemplate": tpl("w")}},
        ),
        {"": [("spec.leaderWorkerTemplate.leaderTemplate", "Leader", 1, "Unified", "l")]},
    ),
    "RBG v1alpha1": (
        manifest(
            *RBG1,
            {
                "roleTemplates": [base("b", "base")],
                "roles": [
                    {"name": "router", "template": tpl("r")},
                    {
                        "name": "prefill",
                        "templateRef": {"name": "b"},
                        "templatePatch": args("p"),
                    },
                    {
                        "name": "decode",
                        "workload": {"kind": "LeaderWorkerSet"},
                        "template": tpl("d"),
                        "leaderWorkerSet": {"size": 2, "patchLeaderTemplate": args("dl")},
                    },
                    {
                        "name": "set",
                        "workload": {"kind": "InstanceSet"},
                        "components": [
                            {"name": "a", "template": tpl("ca")},
                            {"name": "b", "size": 3, "template": tpl("cb")},
                        ],
                    },
                ],
            },
        ),
        {
            "router": [("spec.roles[0].template", "Standalone", 1, "Unified", "r")],
            "prefill": [("spec.roles[1].templatePatch", "Standalone", 1, "Prefill", "p")],
            "decode": [
                (
                    "spec.roles[2].leaderWorkerSet.patchLeaderTemplate",
                    "Leader",
                    1,
                    "Decode",
                    "dl",
                ),
                (
                    "spec.roles[2].leaderWorkerSet.patchWorkerTemplate",
                    "Worker",
                    1,
                    "Decode",
                    "d",
                ),
            ],
            "set": [
                ("spec.roles[3].components[0].template", "Leader", 1, "Unified", "ca"),
                ("spec.roles[3].components[1].template", "Worker", 3, "Unified", "cb"),
            ],
        },
    ),
    "RBG v1alpha2": (
        manifest(
            *RBG2,
            {
                "roleTemplates": [base("other", "o"), base("b", "base")],
                "roles": [
                    {"name": "agg", "standalonePattern": {"template": tpl("s")}},
                    {
                        "name": "Decode-0",
                        "leaderWorkerPattern": {
                            "size": 2,
                            "templateRef": {"name": "b", "patch": args("patched")},
                            "workerTemplatePatch": args("w"),
                        },
                    },
                    {
                        "name": "alike",
                        "leaderWorkerPattern": {"size": 4, "templateRef": {"name": "b"}},
                    },
                    {
                        "name": "custom",
                        "customComponentsPattern": {
                            "components": [{"name": "only", "template": tpl("c")}]
                        },
                    },
                ],
            },
        ),
        {
            "agg": [("spec.roles[0].standalonePattern.template", "Standalone", 1, "Unified", "s")],
            "Decode-0": [
                (
                    "spec.roles[1].leaderWorkerPattern.leaderTemplatePatch",
                    "Leader",
                    1,
                    "Decode",
                    "patched",
                ),
                (
                    "spec.roles[1].leaderWorkerPattern.workerTemplatePatch",
                    "Worker",
                    1,
                    "Decode",
                    "w",
                ),
            ],
            "alike": [
                (
                    "spec.roles[2].leaderWorkerPattern.templateRef.patch",
                    "Member",
                    4,
                    "Unified",
                    "base",
                )
            ],
            "custom": [
                (
                    "spec.roles[3].customComponentsPattern.components[0].template",
                    "Standalone",
                    1,
                    "Unified",
                    "c",
                )
            ],
        },
    ),
    "KServe unified": (
        manifest(*KSERVE, {"labels": {"a": "b"}, "template": tpl("t")["spec"]}),
        {"": [("spec.template", "Standalone", 1, "Unified", "t")]},
    ),
    "KServe disaggregated over several pods": (
        manifest(
            *KSERVE,
            {
                "parallelism": {"data": 16, "dataLocal": 4},
                "template": tpl("d")["spec"],
                "worker": tpl("dw")["spec"],
                "prefill": {"template": tpl("p")["spec"], "worker": tpl("pw")["spec"]},
            },
        ),
        {
            "decode": [
                ("spec.template", "Leader", 1, "Decode", "d"),
                ("spec.worker", "Worker", 3, "Decode", "dw"),
            ],
            "prefill": [
                ("spec.prefill.template", "Leader", 1, "Prefill", "p"),
                ("spec.prefill.worker", "Worker", 1, "Prefill", "pw"),
            ],
        },
    ),
    "kthena": (
        manifest(
            "workload.serving.volcano.sh/v1alpha1",
            "ModelServing",
            {
                "template": {
                    "roles": [
                        {"name": "prefill", "entryTemplate": tpl("p"), "workerReplicas": 0},
                        {
                            "name": "decode",
                            "entryTemplate": tpl("d"),
                            "workerReplicas": 2,
                            "workerTemplate": tpl("dw"),
                        },
                    ]
                }
            },
        ),
        {
            "prefill": [("spec.template.roles[0].entryTemplate", "Standalone", 1, "Prefill", "p")],
            "decode": [
                ("spec.template.roles[1].entryTemplate", "Leader", 1, "Decode", "d"),
                ("spec.template.roles[1].workerTemplate", "Worker", 2, "Decode", "dw"),
            ],
        },
    ),
    "AIBrix StormService": (
        manifest(
            "orchestration.aibrix.ai/v1alpha1",
            "StormService",
            {
                "template": {
                    "spec": {
                        "roles": [
                            {"name": "prefill", "template": tpl("p")},
                            {"name": "decode", "podGroupSize": 2, "template": tpl("d")},
                        ]
                    }
                }
            },
        ),
        {
            "prefill": [("spec.template.spec.roles[0].template", "Standalone", 1, "Prefill", "p")],
            "decode": [("spec.template.spec.roles[1].template", "Member", 2, "Decode", "d")],
        },
    ),
    "Grove PodCliqueSet, as Modelplane's": (
        clique_set(
            [clique("leader", "l"), clique("worker", "w", replicas=3)],
            {"name": "gang", "cliqueNames": ["leader", "worker"], "replicas": 2},
        ),
        {
            "gang": [
                (f"{CLIQUES}[0].spec.podSpec", "Leader", 1, "Unified", "l"),
                (f"{CLIQUES}[1].spec.podSpec", "Worker", 3, "Unified", "w"),
            ]
        },
    ),
    "Grove PodCliqueSet, as Dynamo's": (
        clique_set(
            [
                clique("frontend", "f", replicas=2),
                clique("worker-ldr", "pl", roleName="vllmprefill"),
                clique("worker-wkr", "pw", roleName="vllmprefill"),
                clique("decode", "d", replicas=4),
                clique("idle", "i", replicas=0),
            ],
            {"name": "prefill", "cliqueNames": ["worker-ldr", "worker-wkr"]},
            {"name": "alone", "cliqueNames": ["decode"]},
        ),
        {
            "frontend": [(f"{CLIQUES}[0].spec.podSpec", "Standalone", 1, "Unified", "f")],
            "prefill": [
                (f"{CLIQUES}[1].spec.podSpec", "Leader", 1, "Prefill", "pl"),
                (f"{CLIQUES}[2].spec.podSpec", "Worker", 1, "Prefill", "pw"),
            ],
            "alone": [(f"{CLIQUES}[3].spec.podSpec", "Member", 4, "Decode", "d")],
            "idle": [(f"{CLIQUES}[4].spec.podSpec", "Standalone", 1, "Unified", "i")],
        },
    ),
    "Grove PodCliqueSet, prefill and decode that only scale together": (
        clique_set(
            [clique("prefill", "p"), clique("decode", "d")],
            {"name": "pair", "cliqueNames": ["prefill", "decode", 7, "no-such-clique"]},
        ),
        {
            "prefill": [(f"{CLIQUES}[0].spec.podSpec", "Standalone", 1, "Prefill", "p")],
            "decode": [(f"{CLIQUES}[1].spec.podSpec", "Standalone", 1, "Decode", "d")],
        },
    ),
    "AIBrix RayClusterFleet": (
        manifest(
            "orchestration.aibrix.ai/v1alpha1", "RayClusterFleet", {"template": {"spec": RAY_PODS}}
        ),
        {
            "": [
                ("spec.template.spec.headGroupSpec.template", "Leader", 1, "Unified", "head"),
                (
                    "spec.template.spec.workerGroupSpecs[0].template",
                    "Worker",
                    3,
                    "Unified",
                    "w",
                ),
                (
                    "spec.template.spec.workerGroupSpecs[1].template",
                    "Worker",
                    1,
                    "Unified",
                    "x",
                ),
            ]
        },
    ),
    "RayCluster": (
        manifest("ray.io/v1", "RayCluster", RAY_PODS),
        {
            "": [
                ("spec.headGroupSpec.template", "Leader", 1, "Unified", "head"),
                ("spec.workerGroupSpecs[0].template", "Worker", 3, "Unified", "w"),
                ("spec.workerGroupSpecs[1].template", "Worker", 1, "Unified", "x"),
            ]
        },
    ),
    "OME": (
        manifest(
            "ome.io/v1beta1",
            "InferenceService",
            {
                "engine": {"minReplicas": 1, "runner": {"name": "ome-container", "args": ["p"]}},
                "decoder": {
                    "leader": {"runner": {"name": "ome-container", "args": ["d"]}},
                    "worker": {"size": 2, "runner": {"name": "ome-container", "args": ["dw"]}},
                },
            },
        ),
        {
            "engine": [("spec.engine", "Standalone", 1, "Prefill", "p")],
            "decoder": [
                ("spec.decoder.leader", "Leader", 1, "Decode", "d"),
                ("spec.decoder.worker", "Worker", 2, "Decode", "dw"),
            ],
        },
    ),
    "OME runtime": (
        manifest(
            "ome.io/v1beta1",
            "ClusterServingRuntime",
            {"engineConfig": {"runner": {"name": "ome-container", "args": ["e"]}}},
        ),
        {"": [("spec.engineConfig", "Standalone", 1, "Unified", "e")]},
    ),
}


def outline(workload):
    return {
        gang.name: [
            (t.path, t.role, t.pods, t.phase, t.body["spec"]["containers"][0]["args"][0])
            for t in gang.templates
        ]
        for gang in workload.engines
    }


@pytest.mark.parametrize("name", FOUND)
def test_templates_of_each_kind(name):
    document, wanted = FOUND[name]
    assert outline(find(document)) == wanted


def wired(body, tag):
    """A body changed in the ways wiring changes one: an added variable, argument and volume."""
    body = deepcopy(body)
    container = body["spec"]["containers"][0]
    container["args"] = [*container["args"], tag]
    container.setdefault("env", []).append({"name": "KV", "value": tag})
    body["spec"].setdefault("volumes", []).append({"name": "kv", "emptyDir": {}})
    body.setdefault("metadata", {}).setdefault("labels", {})["kv"] = "on"
    return body


@pytest.mark.parametrize("name", FOUND)
def test_replaced_templates_read_back_equal(name):
    document, wanted = FOUND[name]
    before = deepcopy(document)
    changed = document
    templates = {t.path: t for t in find(document).templates}
    bodies = {path: wired(t.body, f"{name}-wired") for path, t in templates.items()}
    for path, body in bodies.items():
        changed = replace(changed, templates[path], body)
    assert document == before
    assert {t.path: t.body for t in find(changed).templates} == bodies
    again = changed
    for path, body in bodies.items():
        again = replace(again, templates[path], body)
    assert again == changed
    assert {p: [t[:4] for t in g] for p, g in outline(find(changed)).items()} == {
        p: [t[:4] for t in g] for p, g in wanted.items()
    }


@pytest.mark.parametrize("name", FOUND)
def test_writing_unchanged_templates_changes_nothing(name):
    document, _ = FOUND[name]
    same = document
    for template in find(document).templates:
        same = replace(same, template, template.body)
    assert same == document
    assert list(same["spec"]) == list(document["spec"])


def test_role_templates_stay_unchanged():
    document, _ = FOUND["RBG v1alpha2"]
    changed = document
    for template in find(document).templates:
        changed = replace(changed, template, wired(template.body, "w"))
    assert changed["spec"]["roleTemplates"] == document["spec"]["roleTemplates"]
    assert changed["spec"]["roles"][2]["leaderWorkerPattern"]["templateRef"] == {
        "name": "b",
        "patch": {
            "spec": {
                "containers": [
                    {
                        "name": "engine",
                        "args": ["base", "w"],
                        "env": [{"name": "KV", "value": "w"}],
                    }
                ],
                "volumes": [{"name": "kv", "emptyDir": {}}],
            },
            "metadata": {"labels": {"kv": "on"}},
        },
    }


def test_kserve_labels_are_next_to_the_pod_spec():
    document, _ = FOUND["KServe unified"]
    (template,) = find(document).templates
    assert template.body["metadata"] == {"labels": {"a": "b"}}
    changed = replace(document, template, wired(template.body, "w"))
    assert changed["spec"]["labels"] == {"a": "b", "kv": "on"}
    assert "metadata" not in changed["spec"]


def test_ray_service():
    document = manifest(
        "ray.io/v1", "RayService", {"rayClusterConfig": RAY_PODS, "serveConfigV2": SERVE}
    )
    workload = find(document)
    *pods, serve = workload.templates
    assert [t.path for t in pods] == [
        "spec.rayClusterConfig.headGroupSpec.template",
        "spec.rayClusterConfig.workerGroupSpecs[0].template",
        "spec.rayClusterConfig.workerGroupSpecs[1].template",
    ]
    assert (serve.kind, serve.path) == (
        "serve",
        "spec.serveConfigV2:applications[0].args.llm_configs[0]",
    )
    assert workload.engines[0].pods == 5
    body = {**serve.body, "engine_kwargs": {**serve.body["engine_kwargs"], "block_size": 64}}
    changed = replace(document, serve, body)
    config = yaml.safe_load(changed["spec"]["serveConfigV2"])
    assert config["applications"][0]["args"]["llm_configs"][0]["engine_kwargs"] == {
        "tensor_parallel_size": 2,
        "block_size": 64,
    }
    assert replace(document, serve, serve.body)["spec"]["serveConfigV2"] == SERVE
    broken = manifest("ray.io/v1", "RayService", {"serveConfigV2": "a: [", "rayClusterConfig": {}})
    with pytest.raises(Refused) as refused:
        find(broken)
    assert (refused.value.reason, refused.value.path) == ("ArgsNotPatchable", "spec.serveConfigV2")


PATHS = manifest(
    "x/v1",
    "Other",
    {
        "pools": [
            {"name": "prefill", "pod": tpl("p")},
            {"name": "b", "pod": tpl("b")},
        ],
        "a.b/c": {"spec": tpl("s")["spec"]},
    },
)


def test_unknown_kinds_need_a_declared_path():
    assert find(PATHS) is None
    workload = find(PATHS, ["spec.pools[*].pod", 'spec["a.b/c"]'])
    assert outline(workload) == {
        "spec.pools[0].pod": [("spec.pools[0].pod", "Standalone", 1, "Prefill", "p")],
        "spec.pools[1].pod": [("spec.pools[1].pod", "Standalone", 1, "Unified", "b")],
        'spec["a.b/c"]': [('spec["a.b/c"]', "Standalone", 1, "Unified", "s")],
    }
    changed = replace(PATHS, workload.templates[1], tpl("new"))
    assert changed["spec"]["pools"] == [PATHS["spec"]["pools"][0], {"name": "b", "pod": tpl("new")}]


def test_a_path_to_a_pod_spec_has_no_place_for_labels():
    path = "spec.pools[0].pod.spec"
    (template,) = find(PATHS, [path]).templates
    assert replace(PATHS, template, {"spec": {"containers": []}})["spec"]["pools"][0]["pod"] == {
        "spec": {"containers": []}
    }
    with pytest.raises(Refused, match=r"path of the pod template"):
        replace(PATHS, template, {**template.body, "metadata": {"labels": {"a": "b"}}})


@pytest.mark.parametrize("path", ["", "spec..x", "spec[", ".spec", "spec[x]", "spec template"])
def test_invalid_paths_are_refused(path):
    with pytest.raises(Refused) as refused:
        find(PATHS, [path])
    assert refused.value.reason == "PodConflict"


@pytest.mark.parametrize("path", ["spec.nowhere", "spec.pools[7].pod", "spec.pools[*].nothing"])
def test_paths_to_missing_fields_find_nothing(path):
    assert find(PATHS, [path]) is None


def test_unknown_patch_directive_is_refused():
    document = manifest(
        *RBG1,
        {
            "roleTemplates": [base("b", "x")],
            "roles": [
                {
                    "name": "r",
                    "templateRef": {"name": "b"},
                    "templatePatch": {"spec": {"$retainKeys": ["containers"]}},
                }
            ],
        },
    )
    with pytest.raises(Refused, match="retainKeys") as refused:
        find(document)
    assert refused.value.path == "spec.roles[0].templatePatch"


RUBBISH = (None, 1, "x", True, [], {}, [1], ["x"], [None], {"a": 1})


def mutations(node):
    """Every document that comes of putting rubbish in one place of `node`."""
    for other in RUBBISH:
        yield deepcopy(other)
    for key in (
        node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    ):
        for other in mutations(node[key]):
            copy = node.copy()
            copy[key] = other
            yield copy


@pytest.mark.parametrize("name", FOUND)
def test_malformed_documents_raise_only_refused(name):
    document, _ = FOUND[name]
    for spec in mutations(document["spec"]):
        broken = {**document, "spec": spec, "metadata": None}
        with contextlib.suppress(Refused):
            workload = find(broken)
            for template in workload.templates if workload else ():
                if not template.problem:
                    assert replace(broken, template, template.body) == broken


@pytest.mark.parametrize("field", ["name", "image", "workingDir"])
def test_container_fields_are_strings(field: str):
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.33.0", field: 4}
    body = {"template": {"spec": {"containers": [container]}}}
    (template,) = find(manifest("apps/v1", "Deployment", body)).templates
    assert template.problem == f"spec.template.spec.containers[0].{field}: This is not a string."


def test_a_malformed_template_keeps_only_what_it_declares():
    document = manifest(
        "apps/v1",
        "Deployment",
        {
            "template": {
                "metadata": {"annotations": {"a": "b", "c": 1}},
                "spec": {"containers": [{"name": "engine", "env": {"A": "1"}}]},
            }
        },
    )
    (template,) = find(document).templates
    assert template.problem == "spec.template.spec.containers[0].env: This is not a list."
    assert template.body == {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {"containers": []},
    }
    with pytest.raises(Refused, match="This is not a list"):
        replace(document, template, template.body)


def test_malformed_serve_configurations_raise_only_refused():
    for config in mutations(yaml.safe_load(SERVE)):
        spec = {"rayClusterConfig": RAY_PODS, "serveConfigV2": yaml.safe_dump(config)}
        with contextlib.suppress(Refused):
            find(manifest("ray.io/v1", "RayService", spec))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "This is not valid YAML"),
        ("a: 2026-99-99", "This is not valid YAML"),
        ("[" * 100_000, "more than 100 levels deep"),
        (BOMB, "aliases stand for more than"),
    ],
    ids=["broken", "no date", "deep", "bomb"],
)
def test_unreadable_serve_configuration_is_refused(text, message):
    config = {"rayClusterConfig": RAY_PODS, "serveConfigV2": text}
    with pytest.raises(Refused, match=message):
        find(manifest("ray.io/v1", "RayService", config))
