"""`kv-offload wire`: manifests of Helm and kustomize, wired as the function wires composed ones."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from function.api.input import Input
from function.kube import access
from function.names import ANNOTATION_RECORD
from kv_offload.cli import main
from kv_offload.render import wiring

Json = dict[str, Any]

TIER: Json = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "KVOffloadTier",
    "metadata": {"name": "chat", "namespace": "kv"},
    "spec": {
        "inferenceClusterRef": {"name": "prod"},
        "allowedNamespaces": {"from": "Names", "names": ["team-a"]},
        "backend": "LMCache",
        "nodes": {"selector": {"gpu": "h200"}},
        "lmcache": {"gpuWorkers": 8, "l1": {"sizeGiB": 200}},
    },
}
SERVICE: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "vllm"}}


def deployment(tier: str = "kv/chat", namespace: str = "", **annotations: str) -> Json:
    asks = {f"modelplane.ai/kv-offload-{name}": value for name, value in annotations.items()}
    pod = {
        "metadata": {
            "labels": {"app": "vllm"},
            "annotations": {"modelplane.ai/kv-offload-tier": tier, **asks},
        },
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "image": "vllm/vllm-openai:v0.33.0",
                    "args": ["--model", "Qwen/Qwen3-8B"],
                }
            ]
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "vllm"} | ({"namespace": namespace} if namespace else {}),
        "spec": {"selector": {"matchLabels": {"app": "vllm"}}, "template": pod},
    }


def wire(tmp_path: Path, *documents: Json, args: tuple[str, ...] = (), tier: Json = TIER) -> Result:
    (tmp_path / "tier.yaml").write_text(yaml.safe_dump(tier))
    given = yaml.safe_dump_all(documents)
    command = ["wire", "--tier", str(tmp_path / "tier.yaml"), *args]
    result = CliRunner().invoke(main, command, input=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def made(result: Result) -> list[Json]:
    assert result.exit_code == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def test_raised_memory_is_told(tmp_path: Path) -> None:
    pod = deployment()
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"memory": "32Gi"}}
    native = {key: value for key, value in TIER["spec"].items() if key not in ("lmcache", "nodes")}
    native |= {"backend": "Native", "native": {"cpu": {"sizeGiB": 64}}}
    result = wire(tmp_path, pod, args=("-n", "team-a"), tier={**TIER, "spec": native})
    assert "memory: spec.template: limits.memory of engine: 32Gi → " in result.stderr
    assert "memory: spec.template: volume kv-offload-shm: none → unlimited" in result.stderr
    assert "memory: " not in wire(tmp_path, made(result)[-1], tier={**TIER, "spec": native}).stderr


def test_engine_gets_its_connector_and_the_config_map_of_its_files(tmp_path: Path) -> None:
    service, files, wired = made(wire(tmp_path, SERVICE, deployment(), args=("-n", "team-a")))
    assert service == SERVICE
    assert files["kind"] == "ConfigMap"
    # What the author left to the apply stays so.
    assert "namespace" not in {**files["metadata"], **wired["metadata"]}
    pod = wired["spec"]["template"]["spec"]
    mounted = [v["configMap"] for v in pod["volumes"] if "configMap" in v]
    assert [each["name"] for each in mounted] == [files["metadata"]["name"]]
    assert files["data"]
    assert "--kv-transfer-config" in pod["containers"][0]["args"]
    assert json.loads(wired["metadata"]["annotations"][ANNOTATION_RECORD])["tier"] == "kv/chat"


def test_output_wired_again_changes_no_pod(tmp_path: Path) -> None:
    once = made(wire(tmp_path, SERVICE, deployment(namespace="team-a")))
    twice = made(wire(tmp_path, *once))
    assert [each["kind"] for each in twice] == ["Service", "ConfigMap", "Deployment"]
    assert twice[1] == once[1]
    assert twice[2]["spec"] == once[2]["spec"]


def test_manifests_without_a_tier_are_noted(tmp_path: Path) -> None:
    unasked = deployment(namespace="team-a")
    del unasked["spec"]["template"]["metadata"]["annotations"]
    for documents in ([SERVICE], [SERVICE, unasked]):
        result = wire(tmp_path, *documents)
        assert made(result) == documents
        assert result.stderr == (
            "No pod names a tier by modelplane.ai/kv-offload-tier: nothing is wired.\n"
        )
    assert "No pod names" not in wire(tmp_path, unasked, deployment(namespace="team-a")).stderr


def test_bare_pod_stays_a_pod(tmp_path: Path) -> None:
    template = deployment()["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": "vllm", "namespace": "team-a"}
    files, wired = made(wire(tmp_path, pod))
    assert (files["kind"], wired["kind"]) == ("ConfigMap", "Pod")
    assert "--kv-transfer-config" in wired["spec"]["containers"][0]["args"]
    assert ANNOTATION_RECORD in wired["metadata"]["annotations"]


def test_two_workloads_of_one_name_have_config_maps_of_their_own(tmp_path: Path) -> None:
    other = {**deployment(namespace="team-a"), "kind": "ReplicaSet"}
    found = made(wire(tmp_path, deployment(namespace="team-a"), other))
    names = [each["metadata"]["name"] for each in found if each["kind"] == "ConfigMap"]
    assert len(set(names)) == 2


def test_off_is_left_as_it_is(tmp_path: Path) -> None:
    off = deployment(namespace="team-a", policy="Off")
    assert made(wire(tmp_path, off)) == [off]


@pytest.mark.parametrize(
    ("document", "args", "code", "told"),
    [
        (deployment(), (), 2, "Deployment vllm has no metadata.namespace: pass --namespace"),
        (deployment("kv/other", "team-a"), (), 3, "TierNotFound: KVOffloadTier kv/other is not"),
        (deployment(namespace="team-b"), (), 3, "NamespaceNotAllowed"),
    ],
)
def test_refusal_prints_no_manifest(
    tmp_path: Path, document: Json, args: tuple[str, ...], code: int, told: str
) -> None:
    result = wire(tmp_path, SERVICE, document, args=args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr


def test_optional_engine_is_left_unwired_with_a_note(tmp_path: Path) -> None:
    optional = deployment(namespace="team-b", policy="Optional")
    result = wire(tmp_path, optional)
    assert made(result) == [optional]
    assert "left unwired. NamespaceNotAllowed" in result.stderr


def test_fleet_tier_is_refused_with_what_to_name(tmp_path: Path) -> None:
    fleet = json.loads(json.dumps(TIER))
    del fleet["spec"]["inferenceClusterRef"]
    fleet["spec"]["clusterSelector"] = {"matchLabels": {"gpu": "h200"}}
    result = wire(tmp_path, deployment(namespace="team-a"), tier=fleet)
    assert result.exit_code == 3
    assert "KVOffloadTier kv/chat is a fleet's: name its child on this cluster" in result.stderr


def test_tier_that_is_not_ready_is_told(tmp_path: Path) -> None:
    condition = {"type": "Ready", "status": "False", "reason": "Creating", "message": "2 of 3"}
    tier = {**TIER, "status": {"conditions": [condition]}}
    result = wire(tmp_path, deployment(namespace="team-a"), tier=tier)
    assert "The tier is not ready: its status has no condition Ready=True" in result.stderr
    assert made(result)


def test_resource_list_of_a_krm_function_stays_one(tmp_path: Path) -> None:
    packages = {"lmcache": "0.5.6"}
    starts = ["vllm", "serve"]
    image = {"engine": "vLLM", "version": "0.33.0", "entrypoint": starts, "packages": packages}
    own = deployment(namespace="team-a")
    own["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/own:1"
    config = {
        "apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1",
        "kind": "Input",
        "metadata": {"name": "kv-offload"},
        "engineImages": {"own": image},
    }
    found = {
        "apiVersion": "config.kubernetes.io/v1",
        "kind": "ResourceList",
        "functionConfig": config,
        "items": [SERVICE, own],
    }
    (answer,) = made(wire(tmp_path, found))
    assert {k: v for k, v in answer.items() if k != "items"} == {
        k: v for k, v in found.items() if k != "items"
    }
    assert [each["kind"] for each in answer["items"]] == ["Service", "ConfigMap", "Deployment"]


def test_tiers_among_the_manifests_count(tmp_path: Path) -> None:
    other = {**TIER, "metadata": {"name": "own", "namespace": "kv"}}
    found = made(wire(tmp_path, other, deployment("kv/own", "team-a")))
    assert found[0] == other
    assert [each["kind"] for each in found[1:]] == ["ConfigMap", "Deployment"]


def test_policy_that_yaml_reads_as_false_is_refused(tmp_path: Path) -> None:
    asks = deployment(namespace="team-a")
    asks["spec"]["template"]["metadata"]["annotations"]["modelplane.ai/kv-offload-policy"] = False
    result = wire(tmp_path, asks)
    assert (result.exit_code, result.stdout) == (3, "")
    assert 'write "Off" in quotes' in result.stderr


def test_auto_chooses_among_labelled_tiers(tmp_path: Path) -> None:
    label = {"modelplane.ai/kv-offload-auto": "true"}
    hicache = {**TIER["spec"], "backend": "HiCache", "hicache": {"host": {"sizeGiB": 10}}}
    hicache = {k: v for k, v in hicache.items() if k not in ("lmcache", "nodes")}
    asks = deployment("kv/auto", "team-a")
    none = wire(tmp_path, asks)
    assert none.exit_code == 3
    assert "no KVOffloadTier of --tier in kv has the label" in none.stderr
    tiers = [
        {**TIER, "metadata": {"name": "a", "namespace": "kv", "labels": label}, "spec": hicache},
        {**TIER, "metadata": {"name": "b", "namespace": "kv", "labels": label}},
    ]
    found = made(wire(tmp_path, *tiers, asks))
    record = json.loads(access.texts(found[-1], "metadata", "annotations")[ANNOTATION_RECORD])
    assert record["tier"] == "kv/b"
    refused = wire(tmp_path, tiers[0], asks)
    assert refused.exit_code == 3
    assert "kv/a: HiCache works with SGLang only" in refused.stderr


def test_quarantine_of_the_tier_counts(tmp_path: Path) -> None:
    """A tier as kubectl prints it: engines that read what was left behind would be wrong again."""
    row = {"namespace": "team-a", "name": "Qwen/Qwen3-8B", "number": 1, "open": False}
    found = []
    for rows in ([], [row], [{**row, "name": "other"}]):
        tier = {**TIER, "status": {"quarantine": rows}}
        made_of = made(wire(tmp_path, deployment("kv/chat", "team-a"), tier=tier))[-1]
        record = access.texts(made_of, "metadata", "annotations")[ANNOTATION_RECORD]
        found.append(json.loads(record)["engines"])
    assert found[0] == found[2] != found[1]


def test_halves_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    tier = {**TIER, "spec": {**TIER["spec"], "backend": "NIXL", "nixl": {}}}
    del tier["spec"]["lmcache"], tier["spec"]["nodes"]
    prefill, decode = deployment(namespace="team-a"), deployment(namespace="team-a")
    for half, phase, model in ((prefill, "prefill", "Qwen/Qwen3-8B"), (decode, "decode", "b/c")):
        half["metadata"]["name"] = phase
        pod = half["spec"]["template"]
        pod["metadata"]["labels"]["llm-d.ai/role"] = phase
        pod["spec"]["containers"][0]["args"] = ["--model", model]
    result = wire(tmp_path, prefill, decode, tier=tier)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "Deployment team-a/prefill: " in result.stderr
    decode["spec"]["template"]["spec"]["containers"][0]["args"] = ["--model", "Qwen/Qwen3-8B"]
    assert len(made(wire(tmp_path, prefill, decode, tier=tier))) == 2


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"status": {"conditions": [{"type": "Accepted", "status": "False"}]}}, "InvalidTier"),
        ({"status": {"pinned": {"spec.backend": "Native"}}}, "TierNotReady"),
    ],
)
def test_tier_whose_edit_does_not_run_is_refused(tmp_path: Path, extra: Json, reason: str) -> None:
    result = wire(tmp_path, deployment(namespace="team-a"), tier=TIER | extra)
    assert result.exit_code == 3
    assert reason in result.stderr


def test_tier_that_is_being_deleted_is_told(tmp_path: Path) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    metadata = TIER["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    result = wire(
        tmp_path,
        deployment(namespace="team-a"),
        tier=TIER | {"metadata": metadata, "status": ready},
    )
    assert "The tier is not ready: it is being deleted." in result.stderr


def test_config_map_of_the_same_stream_is_read(tmp_path: Path) -> None:
    flags = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg"}}
    flags["data"] = {"vllm.yaml": "model: Qwen/Qwen3-8B\n"}
    engine = deployment()
    pod = engine["spec"]["template"]["spec"]
    pod["containers"][0] |= {
        "command": ["vllm", "serve"],
        "args": ["--config", "/etc/vllm/vllm.yaml"],
        "volumeMounts": [{"name": "cfg", "mountPath": "/etc/vllm"}],
    }
    pod["volumes"] = [{"name": "cfg", "configMap": {"name": "cfg"}}]
    assert len(made(wire(tmp_path, flags, engine, args=("-n", "team-a")))) == 3


def test_misplaced_request_is_no_success(tmp_path: Path) -> None:
    engine = deployment(namespace="team-a")
    asks = engine["spec"]["template"]["metadata"].pop("annotations")
    engine["metadata"]["annotations"] = asks
    result = wire(tmp_path, engine)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "does nothing" in result.stderr


def test_objects_are_left_to_the_function(tmp_path: Path) -> None:
    spec = {
        "providerConfigRef": {"name": "prod"},
        "forProvider": {"manifest": deployment(namespace="team-a")},
    }
    wrapped = {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {"name": "engine", "namespace": "team-a"},
        "spec": spec,
    }
    result = wire(tmp_path, wrapped)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "an Object is wired by the function's step" in result.stderr


def test_config_map_is_applied_when_its_workload_is(tmp_path: Path) -> None:
    engine = deployment(namespace="team-a")
    order = {"argocd.argoproj.io/sync-wave": "-1", "helm.sh/hook": "pre-install"}
    engine["metadata"]["annotations"] = order | {"other": "1"}
    files, _ = made(wire(tmp_path, engine))
    assert files["metadata"]["annotations"] == order


def test_engine_that_the_tier_leaves_alone_stops_nothing(tmp_path: Path) -> None:
    router = deployment(namespace="team-a")
    router["metadata"]["name"] = "router"
    router["spec"]["template"]["spec"]["containers"][0] = {
        "name": "router",
        "image": "lmsysorg/sglang:v0.5.23",
        "command": ["python3", "-m", "sglang_router.launch_router"],
    }
    result = wire(tmp_path, router, deployment(namespace="team-a"))
    found = made(result)
    assert found[0] == router
    assert len(found) == 3
    assert "left unwired. OutOfScope" in result.stderr


def test_tiers_of_one_name_must_be_equal(tmp_path: Path) -> None:
    other = {**TIER, "spec": {**TIER["spec"], "allowedNamespaces": {"from": "All"}}}
    result = wire(tmp_path, other, deployment(namespace="team-a"))
    assert result.exit_code == 2
    assert "KVOffloadTier kv/chat is given twice, and differs" in result.stderr


def test_equals_sign_is_a_string_and_lists_are_opened(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(TIER))
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n"
        "  - apiVersion: a/v1\n    kind: Route\n    metadata: {name: r}\n    matchType: =\n"
    )
    command = ["wire", "--tier", str(tmp_path / "t.yaml")]
    result = CliRunner().invoke(main, command, input=text)
    (route,) = made(result)
    assert (route["kind"], route["matchType"]) == ("Route", "=")


def test_empty_resource_list_stays_empty(tmp_path: Path) -> None:
    found = {"apiVersion": "config.kubernetes.io/v1beta1", "kind": "ResourceList"}
    assert made(wire(tmp_path, found)) == [found | {"items": []}]


EXAMPLES = [
    tier
    for file in sorted((Path(__file__).parents[3] / "example").rglob("*.yaml"))
    for tier in yaml.safe_load_all(file.read_text())
    if tier["kind"] == "KVOffloadTier" and "clusterSelector" not in tier["spec"]
]
ENGINES = {
    "vLLM 0.33": ("vllm/vllm-openai:v0.33.0", ["--model", "Qwen/Qwen3-8B"]),
    "vLLM 0.25": ("vllm/vllm-openai:v0.25.1", ["--model", "Qwen/Qwen3-8B"]),
    "SGLang": (
        "lmsysorg/sglang:v0.5.23",
        ["python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B"],
    ),
}


@pytest.mark.parametrize("tier", EXAMPLES, ids=lambda tier: tier["metadata"]["name"])
def test_every_example_accepts_its_own_output(tier: Json) -> None:
    open_tier = {**tier, "spec": {**tier["spec"], "allowedNamespaces": {"from": "All"}}}
    _, namespace, name = access.named(tier)
    others = {access.named(each): each for each in EXAMPLES} | {access.named(tier): open_tier}
    wirer = wiring.Wirer(list(others.values()), Input(), "")
    wired = []
    for image, args in ENGINES.values():
        engine = deployment(f"{namespace}/{name}", "default")
        container = engine["spec"]["template"]["spec"]["containers"][0]
        container |= {"image": image, "args": args}
        once = wirer.wire_all([engine])
        if not once.refused:
            twice = wirer.wire_all(once.documents)
            assert not twice.refused
            assert [d.get("spec") for d in twice.documents] == [
                d.get("spec") for d in once.documents
            ]
            wired.append(image)
    assert wired
