"""The commands as a person uses them: output, exit codes, and errors without a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from function import composers
from kv_offload.cli import main
from kv_offload.render import defaults, files, validate

ROOT = Path(__file__).resolve().parents[3]
TIER = ROOT / "example/lmcache/tier.yaml"
REQUIRED = ROOT / "example/lmcache/required"

KSERVE_MODEL = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec: {predictor: {model: {modelFormat: {name: huggingface}}}}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: qwen, namespace: default}
spec:
  selector: {matchLabels: {app: qwen}}
  template:
    metadata: {labels: {app: qwen}}
    spec:
      containers:
      - name: engine
        image: IMAGE
        args: [--model, Qwen/Qwen3-8B]
"""
REPLICA = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelReplica
metadata: {name: qwen-0, namespace: team-a}
"""
COMPOSITION = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: replicas}
spec:
  compositeTypeRef: {apiVersion: modelplane.ai/v1alpha1, kind: ModelReplica}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-modelplane}
  - step: kv-offload
    functionRef: {name: function-kv-offload}
"""


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def write(tmp_path: Path):
    def put(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return put


@pytest.mark.parametrize(
    "command", [[], ["render"], ["add-step"], ["explain"], ["validate"], ["plan"], ["doctor"]]
)
def test_help_lists_the_commands(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert max(len(line) for line in result.output.splitlines()) <= 100


@pytest.mark.parametrize(("terminal", "begins"), [(True, "KVOffloadTier "), (False, "---\n")])
def test_render_prints_a_tree_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, begins: str
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: terminal)
    result = run("render", TIER, "--required", REQUIRED)
    assert result.exit_code == 0
    assert click.unstyle(result.stdout).startswith(begins)


def test_render_yaml_and_json_hold_the_same() -> None:
    text = run("render", TIER, "--required", REQUIRED)
    assert text.exit_code == 0
    documents = list(yaml.safe_load_all(text.stdout))
    kinds = [d["kind"] for d in documents]
    assert kinds[0] == "KVOffloadTier"
    assert set(kinds[1:]) == {"Object"}
    as_json = json.loads(run("render", TIER, "-e", REQUIRED, "-o", "json").stdout)
    assert as_json["items"] == files.parse(text.stdout, "stdout")


def test_render_prints_a_readable_tree() -> None:
    result = run("render", TIER, "-e", REQUIRED, "-o", "tree")
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "KVOffloadTier modelplane-system/chat  + nothing runs yet: observed state is empty"
    )
    assert "├── … AgentsReady  Starting: Not on the cluster yet." in lines
    assert any("DaemonSet kv-offload-system/kv-chat-" in line for line in lines)
    assert all(line == line.rstrip() and len(line) <= 100 for line in lines)
    assert "\x1b" not in result.stdout


def test_render_with_results_and_context() -> None:
    result = run("render", TIER, "-e", REQUIRED, "-r", "-x", "-c")
    documents = list(yaml.safe_load_all(result.stdout))
    assert documents[0]["spec"]["backend"] == "LMCache"
    assert {d["kind"] for d in documents} >= {"Context", "Result"}


def test_a_refused_tier_prints_its_conditions_and_exits_with_3(write) -> None:
    rendered = run("render", TIER, "-e", REQUIRED).stdout
    observed = write("observed.yaml", rendered.partition("\n---\n")[2])
    text = TIER.read_text().replace("sizeGiB: 200", "sizeGiB: 0")
    result = run("render", write("tier.yaml", text), "-e", REQUIRED, "--observed", observed)
    assert result.exit_code == 3
    conditions = {c["type"]: c for c in yaml.safe_load(result.stdout)["status"]["conditions"]}
    assert "spec.lmcache.l1.sizeGiB" in conditions["Accepted"]["message"]
    assert result.stderr.startswith('Error: pipeline step "kv-offload" returned a fatal result')


def test_a_step_of_another_function_needs_its_output(write) -> None:
    xr, composition = write("xr.yaml", REPLICA), write("composition.yaml", COMPOSITION)
    result = run("render", xr, composition)
    assert result.exit_code == 2
    assert "step compose runs function-modelplane" in result.stderr
    assert "--step compose=FILE" in result.stderr
    workload = yaml.safe_load(DEPLOYMENT)
    workload["metadata"] |= {"annotations": {"crossplane.io/composition-resource-name": "main"}}
    preset = write("desired.yaml", yaml.safe_dump(workload))
    result = run("render", xr, composition, "--step", f"compose={preset}")
    assert result.exit_code == 0
    _, composed = yaml.safe_load_all(result.stdout)
    assert composed["metadata"]["name"] == "qwen"
    assert composed["metadata"]["ownerReferences"][0]["kind"] == "ModelReplica"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--step", "x"], "'x' is not NAME=FILE"),
        (["--step", "x=y"], "--step x: no such step in the Composition; it has: kv-offload"),
        (["--observed", str(ROOT / "example")], "no .yaml or .yml file in this directory"),
        (["--observed", "absent.yaml"], "does not exist"),
        (["--required", str(TIER)], "is among the required resources too"),
        (["--output", "xml"], "'xml' is not one of"),
        (["--output", "tree", "-r"], "--results, --full-xr and --context need --output yaml"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str) -> None:
    result = run("render", TIER, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("xr", "composition", "message"),
    [
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
            None,
            "Pod.v1 is not one of our kinds",
        ),
        ("apiVersion: v1\nkind: Pod\n", None, "xr.yaml: metadata.name is missing"),
        (f"{REPLICA}status: ready", COMPOSITION, "xr.yaml: status must be an object"),
        (
            f"{REPLICA}status: {{conditions: [Ready]}}",
            COMPOSITION,
            "xr.yaml: status.conditions must be a list of objects",
        ),
        (REPLICA.replace("qwen-0,", "qwen-0, deletionTimestamp: x,"), COMPOSITION, "being deleted"),
        (
            REPLICA.replace("qwen-0,", 'qwen-0, annotations: {crossplane.io/paused: "true"},'),
            COMPOSITION,
            "the composite is paused",
        ),
        (REPLICA, REPLICA, "kind is ModelReplica, expected Composition"),
        (
            REPLICA,
            COMPOSITION.replace("kind: ModelReplica", "kind: Other"),
            "spec.compositeTypeRef.kind is Other, and the composite has ModelReplica",
        ),
        (REPLICA, COMPOSITION.replace("Pipeline", "Resources"), "spec.mode is 'Resources'"),
        (
            REPLICA,
            COMPOSITION.replace("- step: compose", "- stp: compose"),
            "spec.pipeline[0]: set step and functionRef.name",
        ),
    ],
)
def test_unsuitable_inputs_are_refused(
    write, xr: str, composition: str | None, message: str
) -> None:
    arguments = [write("xr.yaml", xr)]
    if composition is not None:
        arguments.append(write("composition.yaml", composition))
    result = run("render", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_wrong_step_input_names_its_file(write) -> None:
    text = "apiVersion: kvoffload.fn.modelplane.ai/v1alpha1\nkind: Input\nwobble: 3\n"
    given = write("input.yaml", text)
    result = run("wire", "--tier", TIER, "--input", given, write("d.yaml", DEPLOYMENT))
    assert result.exit_code == 2
    assert f"{given}: wobble: unknown field" in result.stderr


def test_an_observed_resource_of_another_owner_exits_with_1(write) -> None:
    observed = write(
        "observed.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: other}\n"
    )
    result = run("render", TIER, "-e", REQUIRED, "--observed", observed)
    assert result.exit_code == 1
    assert "not in the same namespace as the XR" in result.stderr


def test_add_step_prints_or_writes_and_is_idempotent(write) -> None:
    text = COMPOSITION.rpartition("  - step: kv-offload")[0]
    path = write("composition.yaml", text)
    printed = run("add-step", path)
    assert path.read_text() == text
    written = run("add-step", "--write", path)
    assert path.read_text() == printed.stdout
    assert "step kv-offload added" in written.stderr
    again = run("add-step", "--write", path)
    assert "already has the step" in again.stderr
    assert path.read_text() == printed.stdout
    steps = yaml.safe_load(printed.stdout)["spec"]["pipeline"]
    assert steps[-1] == {"step": "kv-offload", "functionRef": {"name": "function-kv-offload"}}


PACKAGED = COMPOSITION.rpartition("  - step: kv-offload")[0].replace(
    "metadata: {name: replicas}",
    "metadata: {name: replicas, uid: u, ownerReferences: [{apiVersion: pkg.crossplane.io/v1}]}",
)
COPIED = {
    "by policy": (
        [],
        ["Composition", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
        "replicas-kv-offload",
    ),
    "by reference": (["--select", "Reference"], ["Composition"], "replicas-kv-offload"),
    "under a name": (["--select", "Reference", "--name", "mine"], ["Composition"], "mine"),
}


@pytest.mark.parametrize("case", COPIED)
def test_add_step_copies_a_packaged_composition(write, case: str) -> None:
    options, kinds, name = COPIED[case]
    path = write("composition.yaml", PACKAGED)
    result = run("add-step", path, *options)
    documents = list(yaml.safe_load_all(result.stdout))
    assert [d["kind"] for d in documents] == kinds
    assert documents[0]["metadata"]["name"] == name
    assert "ownerReferences" not in documents[0]["metadata"]
    assert [s["step"] for s in documents[0]["spec"]["pipeline"]] == ["compose", "kv-offload"]
    assert ("spec.crossplane.compositionRef" in result.stderr) == ("Reference" in options)
    run("add-step", "--write", path, *options)
    assert path.read_text() == result.stdout


def test_add_step_requires_another_name_for_a_copy(write) -> None:
    result = run("add-step", write("composition.yaml", PACKAGED), "--name", "replicas")
    assert result.exit_code == 2
    assert "needs another name than replicas" in result.stderr


def test_add_step_refuses_what_it_would_ignore(write) -> None:
    item = f"apiVersion: v1\nkind: List\nitems: [{json.dumps(yaml.safe_load(COMPOSITION))}]\n"
    for text, options, says in (
        (COMPOSITION, ["--name", "mine"], "--name: "),
        (item, [], "0 Compositions, expected one: give it alone, by kubectl get composition NAME"),
    ):
        result = run("add-step", write("c.yaml", text), *options)
        assert (result.exit_code, says in result.stderr, result.stdout) == (2, True, "")


def test_add_step_does_not_change_a_package_with_the_step(write) -> None:
    text = COMPOSITION.replace(
        "metadata: {name: replicas}",
        "metadata: {name: replicas, ownerReferences: [{apiVersion: pkg.crossplane.io/v1}]}",
    )
    assert run("add-step", write("composition.yaml", text)).stdout == text


def test_add_step_into_a_package(write, tmp_path: Path) -> None:
    meta = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: p}\n"
    text = meta + "---\n" + COMPOSITION.rpartition("  - step: kv-offload")[0]
    result = run("add-step", write("package.yaml", text), "--package", tmp_path / "root")
    assert "crossplane xpkg build" in result.stderr
    (changed,) = files.load(tmp_path / "root" / "package.yaml")
    assert [s["step"] for s in changed["spec"]["pipeline"]] == ["compose", "kv-offload"]


def test_doctor_reads_files_or_standard_input(write) -> None:
    well = run("doctor", write("composition.yaml", COMPOSITION))
    assert (well.exit_code, well.stdout.splitlines()[-1][:2]) == (0, "· ")
    assert "No composite here runs with our step" in well.stdout
    replica = REPLICA + "status: {conditions: [{type: KVOffloadReady, status: 'True'}]}\n"
    ill = CliRunner().invoke(main, ["doctor", "-"], input=f"{COMPOSITION}---\n{replica}")
    assert ill.exit_code == 1
    assert "✘ ModelReplica team-a/qwen-0: its CompositionRevision" in ill.stdout


def test_audit_has_exit_codes_for_ci(write) -> None:
    tiers = {
        "native": "example/native/shared.yaml",
        "in-process": "example/lmcache/in-process.yaml",
    }
    for (name, path), code in zip(tiers.items(), (0, 1), strict=True):
        annotation = f"{{app: qwen}}, annotations: {{modelplane.ai/kv-offload-tier: {name}}}}}"
        text = DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0")
        file = write("d.yaml", text.replace("{app: qwen}}\n    spec", f"{annotation}\n    spec"))
        result = run("audit", file, path, "-o", "json")
        assert result.exit_code == code, result.output
        assert [each["tier"] for each in json.loads(result.stdout)["engines"]] == [
            f"modelplane-system/{name}"
        ]
    assert run("audit", "example/native/shared.yaml").exit_code == 2


def test_audit_judges_images_of_the_steps_input(write) -> None:
    named = "{app: qwen}, annotations: {modelplane.ai/kv-offload-tier: native}}"
    text = DEPLOYMENT.replace("IMAGE", "registry.example/own:1")
    file = write("d.yaml", text.replace("{app: qwen}}\n    spec", f"{named}\n    spec"))
    image = "{engine: vLLM, version: 0.33.0, entrypoint: [vllm, serve]}"
    api = "apiVersion: kvoffload.fn.modelplane.ai/v1alpha1\nkind: Input\n"
    given = write("input.yaml", f"{api}metadata: {{name: i}}\nengineImages: {{own: {image}}}\n")
    without = run("audit", file, "example/native/shared.yaml")
    assert (without.exit_code, "engineImages" in without.stdout) == (1, True), without.output
    judged = run("audit", file, "example/native/shared.yaml", "--input", given)
    assert judged.exit_code == 0, judged.output


def test_doctor_is_not_green_on_nothing(write) -> None:
    for text in (
        "",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
        "apiVersion: v1\nkind: List\nitems: []",
    ):
        result = CliRunner().invoke(main, ["doctor", "-"], input=text)
        assert (result.exit_code, result.stdout) == (2, ""), text
        assert "there is no Composition with our step" in result.stderr
    shown = run("doctor", write("composition.yaml", COMPOSITION), "-o", "json")
    found = json.loads(shown.stdout)
    assert found["healthy"] == 0
    assert [each["subject"] for each in found["findings"]] == ["Function function-kv-offload"]


def test_unknown_command_names_the_close_one() -> None:
    result = run("rendr")
    assert result.exit_code == 2
    assert "No such command 'rendr'. Did you mean render?" in result.stderr
    assert "Did you mean" not in run("xyzzy").stderr


def test_validate_names_a_wrong_api_version_and_prints_json(write) -> None:
    text = TIER.read_text().replace("modelplane.ai/v1alpha1", "modelplane.ai/v1")
    result = run("validate", write("t.yaml", text), "-o", "json")
    assert result.exit_code == 1
    (shown,) = json.loads(result.stdout)["tiers"]
    assert shown["lines"] == ["apiVersion: is modelplane.ai/v1, expected modelplane.ai/v1alpha1"]
    assert (shown["valid"], shown["name"]) == (False, "modelplane-system/chat")


# metadata of a tier, the beginnings of what is wrong with it
METADATA: list[tuple[Any, list[str]]] = [
    ({"name": "chat.eu", "namespace": "team"}, []),
    ({"name": "Chat_1", "namespace": "a.b"}, ["name: must be a DNS name", "namespace: must be a"]),
    ({"name": "a" * 64, "namespace": "team"}, ["name: must have at most 63 characters"]),
    ({"name": 12, "namespace": "team"}, ["name: must be a string, not 12"]),
    ({"namespace": "team"}, ["name: must be set"]),
    ({"name": "chat", "namespace": "team", "labels": None, "annotations": {"a": None}}, []),
    (
        {"name": "chat", "namespace": "team", "labels": {"x/auto": True}, "annotations": {"a": 1}},
        ["annotations.a: must be a string, not 1", 'labels["x/auto"]: must be a string, not true'],
    ),
    ("chat", ["name: must be set", "namespace: must be set"]),
]


@pytest.mark.parametrize(("metadata", "wrong"), METADATA)
def test_validate_refuses_a_name_that_no_api_server_takes(metadata: Any, wrong: list[str]) -> None:
    tier = {**files.load_one(TIER, "tier"), "metadata": metadata}
    found = validate.validate(tier)
    assert found.valid == (not wrong)
    if wrong:
        shown = [line.removeprefix("metadata.") for line in found.lines]
        assert all(map(str.startswith, shown, wrong)) and len(shown) == len(wrong)


PROGRAM = [sys.executable, "-c", "from kv_offload.cli import main; main()"]
RENDER = ["render", str(TIER), "--required", str(REQUIRED), "--output", "tree"]


@pytest.mark.parametrize("command", [RENDER, ["version"], ["probe", "--print"]])
def test_output_that_is_not_taken_ends_without_a_traceback(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(PROGRAM + command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert ended.stderr == "Error: the output cannot be written: No space left on device\n"


def test_output_is_utf8_in_any_locale() -> None:
    latin = os.environ | {"PYTHONIOENCODING": "latin-1"}
    ended = subprocess.run(PROGRAM + RENDER, capture_output=True, env=latin)
    assert (ended.returncode, "├── ✔ Accepted" in ended.stdout.decode()) == (0, True)


def test_standard_input_that_is_not_utf8_is_refused() -> None:
    posix = os.environ | {"LC_ALL": "C"}  # Python takes any byte there
    ended = subprocess.run(
        [*PROGRAM, "validate", "-"], input=b"\xff\xfe", capture_output=True, env=posix
    )
    assert (ended.returncode, ended.stderr) == (2, b"Error: -: not UTF-8 text\n")


def test_add_step_reads_the_standard_input(write) -> None:
    text = COMPOSITION[: COMPOSITION.rindex("  - step:")]
    piped = CliRunner().invoke(main, ["add-step", "-"], input=text)
    assert piped.stdout == run("add-step", write("c.yaml", text)).stdout
    assert (piped.exit_code, "name: function-kv-offload" in piped.stdout) == (0, True)
    for more in (["--write"], ["--package", "out"]):
        refused = CliRunner().invoke(main, ["add-step", "-", *more], input=text)
        assert (refused.exit_code, "need a file" in refused.stderr) == (2, True)


def test_add_step_message_names_the_position(write) -> None:
    text = COMPOSITION.replace("ModelReplica", "ModelDeployment")
    result = run("add-step", write("composition.yaml", text))
    assert "Add the step to its Composition" in result.stderr


def test_explain_prints_the_decision_of_a_workload(write) -> None:
    path = write("d.yaml", DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    result = run("explain", path, "--tier", TIER)
    assert result.exit_code == 0
    assert result.stdout.startswith("Deployment qwen  ✔ can be wired\n")
    assert "LMCacheMPConnector" in result.stdout
    assert "       ├── + --kv-transfer-config\n" in result.stdout
    diff = run("explain", path, "--tier", TIER, "-o", "diff").stdout
    assert "+        - --kv-transfer-config\n" in diff
    wired = yaml.safe_load(run("explain", path, "--tier", TIER, "-o", "yaml").stdout)
    container = wired["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][:3] == ["--model", "Qwen/Qwen3-8B", "--kv-transfer-config"]


CLAIMING = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.amd.com}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: qwen}
spec:
  template:
    spec:
      resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]
      containers:
      - name: engine
        image: vllm/vllm-openai:v0.33.0
        args: [Qwen/Qwen3-8B]
        resources: {claims: [{name: gpus}]}
"""


@pytest.mark.parametrize("more", [(), ("--all-tiers",)])
def test_explain_reads_sibling_claims(write, more) -> None:
    said = run("explain", write("d.yaml", CLAIMING), "--tier", TIER, *more).stdout
    assert "on an AMD GPU (the device class gpu.amd.com)" in said


CONFIGURED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: flags}
data: {f.yaml: "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_producer}"}
---
apiVersion: v1
kind: Pod
metadata: {name: qwen}
spec:
  containers:
  - name: engine
    image: vllm/vllm-openai:v0.33.0
    args: [Qwen/Qwen3-8B, --config, /etc/flags/f.yaml]
    volumeMounts: [{name: flags, mountPath: /etc/flags}]
  volumes: [{name: flags, configMap: {name: flags}}]
"""


def test_explain_reads_the_config_file_of_a_sibling(write) -> None:
    said = run("explain", write("d.yaml", CONFIGURED), "--tier", TIER).stdout
    assert "MultiConnector" in said
    assert "NixlConnector" in said
    alone = CONFIGURED.partition("---")[2]
    said = " ".join(run("explain", write("d.yaml", alone), "--tier", TIER).stdout.split())
    assert "--config /etc/flags/f.yaml cannot be read from here (ConfigMap 'flags'" in said


def test_refusal_names_the_fix(write) -> None:
    path = write("d.yaml", DEPLOYMENT.replace("IMAGE", "example.org/serving:1"))
    result = run("explain", path, "--tier", TIER)
    assert result.exit_code == 3
    assert "Deployment qwen  ✘ is not wired" in result.stdout
    assert "EngineUnknown" in result.stdout
    assert "try: Annotate the pod template" in result.stdout
    assert "try: --engine vLLM or --engine SGLang" in result.stdout


# how a pod's container is written -> what explain says of it
NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}'
STARTS = {
    "script": (
        {"command": ["sh", "-c", "true\nexec vllm serve org/m --port 1"]},
        ["- exec vllm serve org/m --port 1\n", "+ exec vllm serve org/m --port 1 --kv-transfer-c"],
    ),
    "the user's own place": (
        {"command": ["sh", "-c", "exec vllm serve org/m $KV_OFFLOAD_ARGS"]},
        ["+ $KV_OFFLOAD_ARGS: --kv-transfer-config\n"],
    ),
    "a connector of the user's": (
        {"args": ["org/m", "--kv-transfer-config", NIXL]},
        [f"- {NIXL}\n", '{"kv_connector":"MultiConnector"'],
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_explain_shows_how_the_container_starts(write, name) -> None:
    start, says = STARTS[name]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "chat"},
        "spec": {"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.33.0", **start}]},
    }
    result = run("explain", write("pod.yaml", yaml.safe_dump(pod)), "--tier", TIER)
    assert result.exit_code == 0, result.output
    assert "── the pod, container main\n" in result.stdout
    for words in says:
        assert words in result.stdout


REQUESTING = "modelplane.ai/kv-offload-"
# annotations of the pods, arguments of the command -> whether a tick is shown, what is said
TICKS = {
    "the tier that is named": ({"tier": "modelplane-system/chat"}, [], True, "LMCacheMPConnector"),
    "another tier": (
        {"tier": "modelplane-system/other"}, [], False,
        "TierNotFound: the pods name KVOffloadTier modelplane-system/other",
    ),
    "off": (
        {"policy": "Off"}, [], False,
        "TurnedOff: the pods have modelplane.ai/kv-offload-policy: Off",
    ),
    "off, and refused": (
        {"policy": "Off", "packages": "lmcache=none"}, [], False,
        "note: without that it is refused: VersionMismatch",
    ),
    "a namespace that is admitted": ({}, ["--namespace", "team-a"], True, "LMCacheMPConnector"),
    "one that is not": (
        {}, ["--namespace", "team-z"], False,
        "NamespaceNotAllowed: the tier's spec.allowedNamespaces does not admit namespace 'team-z'",
    ),
    "nobody says": ({}, [], True, "note: spec.allowedNamespaces was not checked"),
}  # fmt: skip


@pytest.mark.parametrize("name", TICKS)
def test_explain_ticks_only_wired_workloads(write, name: str) -> None:
    annotations, options, ticked, said = TICKS[name]
    document = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    metadata = document["spec"]["template"].setdefault("metadata", {})
    metadata["annotations"] = {f"{REQUESTING}{key}": value for key, value in annotations.items()}
    path = write("d.yaml", yaml.safe_dump(document))
    result = run("explain", path, "--tier", TIER, *options)
    assert (result.exit_code == 0, "✔" in result.stdout) == (ticked, ticked), result.stdout
    assert said in result.stdout


FLEET = TIER.read_text().replace(
    "inferenceClusterRef:\n    name: gke-h200-prod", "clusterSelector:\n    matchLabels: {a: b}"
)
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"


def test_explain_takes_several_documents_standard_input_and_fleets(write) -> None:
    good = DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0")
    bad = good.replace("v0.33.0", "v0.29.0").replace("{name: qwen}", "{name: old}")
    stream = f"{SERVICE}---\n{good}---\n{bad}"
    fleet = write("fleet.yaml", FLEET)
    for tier in (fleet, ROOT / "example/fleet/tier.yaml"):  # waves and overrides too
        result = CliRunner().invoke(main, ["explain", "-", "--tier", str(tier)], input=stream)
        assert result.exit_code == 3
        assert "✔ can be wired" in result.stdout and "✘ is not wired" in result.stdout
        assert "note: a fleet tier" in result.stdout
    alone = CliRunner().invoke(main, ["explain", "-", "--tier", str(fleet)], input=SERVICE * 1)
    assert (alone.exit_code, "Service is not a known" in alone.stderr) == (2, True)


def test_explain_all_tiers_judges_every_tier(write) -> None:
    path = write("d.yaml", DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.23.0"))
    both = "\n---\n".join(
        (ROOT / f"example/lmcache/{name}.yaml").read_text() for name in ("smallest", "in-process")
    )
    result = run("explain", path, "--tier", write("tiers.yaml", both), "--all-tiers")
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()
    assert first.startswith("✘ modelplane-system/smallest  VersionMismatch: ")
    assert "a tier with spec.lmcache.mode InProcess" in first
    assert second.startswith("✔ modelplane-system/")
    alone = run("explain", path, "--tier", ROOT / "example/lmcache/smallest.yaml", "--all-tiers")
    assert alone.exit_code == 3, "no tier takes it"


def test_explain_all_tiers_judges_the_namespace(write) -> None:
    path = write("d.yaml", DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    tier = ROOT / "example/native/smallest.yaml"  # admits team-a
    every = ("explain", path, "--tier", tier, "--all-tiers")
    for options, code, says in (
        ((), 0, "✔ modelplane-system/native  Wired"),
        (("-n", "team-a"), 0, "✔ modelplane-system/native  Wired"),
        (("-n", "team-x"), 3, "✘ modelplane-system/native  NamespaceNotAllowed: "),
    ):
        result = run(*every, *options)
        assert (result.exit_code, says in result.stdout) == (code, True), result.output


def test_explain_all_tiers_ignores_nothing_silently(write) -> None:
    path = write("d.yaml", DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    for tier, options, says in (
        (TIER, ["-o", "json"], "--all-tiers prints a line for each tier: it takes no --output"),
        (write("none.yaml", "# no tier yet\n"), [], "none.yaml: no KVOffloadTier found"),
    ):
        result = run("explain", path, "--tier", tier, "--all-tiers", *options)
        assert (result.exit_code, says in result.stderr, result.stdout) == (2, True, "")


def test_explain_takes_the_tier_that_the_pods_name(write) -> None:
    text = DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0")
    noted = (
        "metadata: {annotations: {modelplane.ai/kv-offload-tier: modelplane-system/TIER}, labels"
    )
    tiers = [ROOT / f"example/{name}.yaml" for name in ("lmcache/smallest", "native/smallest")]
    both = [word for tier in tiers for word in ("--tier", tier)]
    for options in (both, [*both[2:], *both[:2]], [*both, *both[:2]]):
        for name, backend in (("smallest", "LMCache"), ("native", "Native")):
            named = write("d.yaml", text.replace("metadata: {labels", noted.replace("TIER", name)))
            result = run("explain", named, *options)
            assert (result.exit_code, f"Wired to {backend} tier" in result.stdout) == (0, True)
        every = run("explain", named, *options, "--all-tiers").stdout.splitlines()
        assert len(every) == 2
    unnamed = write("d.yaml", text)
    result = run("explain", unnamed, *both)
    assert (result.exit_code, "the pods name none" in result.stderr) == (2, True)
    other = write("d.yaml", text.replace("metadata: {labels", noted.replace("TIER", "third")))
    result = run("explain", other, *both)
    assert (result.exit_code, "system/third" in result.stderr) == (2, True)
    differs = write("t.yaml", tiers[0].read_text().replace("sizeGiB: ", "sizeGiB: 1"))
    result = run("explain", unnamed, *both, "--tier", differs)
    assert (result.exit_code, "is given twice, and differs" in result.stderr) == (2, True)


TIERS = [word for b in ("lmcache", "hicache") for word in ("--tier", f"example/{b}/smallest.yaml")]
LABELLED = "metadata:\n  labels: {modelplane.ai/kv-offload-auto: 'true'}\n"
# annotations of the pods, of the workload -> exit code, what is said, with two tiers given
AMONG_TIERS: dict[str, tuple[dict[str, Any], dict[str, str], int, str]] = {
    "a policy that YAML reads as false": (
        {"tier": "smallest", "policy": False}, {}, 3, 'write "Off" in quotes',
    ),
    "annotated in the wrong place": (
        {}, {"tier": "smallest"}, 3, "RequestIgnored: modelplane.ai/kv-offload-tier under",
    ),
    "auto, and none is labelled": (
        {"tier": "auto"}, {}, 2, "the pods name modelplane-system/auto",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AMONG_TIERS)
def test_explain_says_what_is_wrong_where_several_tiers_are_given(write, name: str) -> None:
    pods, workload, code, said = AMONG_TIERS[name]
    document = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    for place, annotations in (document["spec"]["template"], pods), (document, workload):
        asked = {f"{REQUESTING}{key}": value for key, value in annotations.items()}
        place["metadata"]["annotations"] = asked
    result = run("explain", write("d.yaml", yaml.safe_dump(document)), *TIERS)
    assert (result.exit_code, said in " ".join(result.output.split())) == (code, True)


def test_explain_says_where_an_unknown_kind_is_annotated(write) -> None:
    document = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    document |= {"apiVersion": "acme.example/v1", "kind": "Rack"}
    document["spec"]["template"]["metadata"]["annotations"] = {f"{REQUESTING}tier": "smallest"}
    result = run("explain", write("r.yaml", yaml.safe_dump(document)), *TIERS[:2])
    said = "add to the step's input: paths: [{kind: Rack, path: spec.template}]"
    shown = " ".join(result.stdout.replace("│", " ").split())
    assert (result.exit_code, said in shown) == (3, True), result.output


def test_explain_names_a_wrong_place_before_what_the_tier_refuses(write) -> None:
    document = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    document["metadata"]["annotations"] = {f"{REQUESTING}tier": "turns"}
    result = run("explain", write("d.yaml", yaml.safe_dump(document)), *TIERS[2:], "-o", "json")
    (shown,) = json.loads(result.stdout)["workloads"]
    assert (result.exit_code, shown["reason"]) == (3, "RequestIgnored")
    assert "without that it is refused: EngineUnsupported: HiCache" in shown["notes"][0]


def test_explain_chooses_for_auto_as_the_function_does(write) -> None:
    document = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    document["spec"]["template"]["metadata"]["annotations"] = {f"{REQUESTING}tier": "auto"}
    path = write("d.yaml", yaml.safe_dump(document))
    smallest = ROOT / "example/lmcache/smallest.yaml"
    unlabelled = run("explain", path, "--tier", smallest)
    said = "TierNotFound: modelplane-system/auto means a tier in modelplane-system with the label"
    assert (unlabelled.exit_code, "✔" in unlabelled.stdout) == (3, False)
    assert said in " ".join(unlabelled.stdout.replace("│", " ").split())
    labelled = [
        write(f"{backend}.yaml", text.replace("metadata:\n", LABELLED, 1))
        for backend in ("hicache", "lmcache", "native")
        if (text := (ROOT / f"example/{backend}/smallest.yaml").read_text())
    ]
    among = [word for tier in labelled for word in ("--tier", tier)]
    # "native" is the first by name; it admits team-a alone, and "turns" serves SGLang alone.
    for namespace, chosen in ("team-a", "native"), ("team-b", "smallest"):
        result = run("explain", path, *among, "--namespace", namespace)
        assert result.exit_code == 0, result.output
        assert f"tier modelplane-system/{chosen}:" in " ".join(result.stdout.split())
    none = run("explain", path, "--tier", labelled[0])
    assert (none.exit_code, "HiCache works with SGLang only" in none.stdout) == (3, True)


@pytest.mark.parametrize("options", [TIERS, TIERS[:2], [*TIERS, "--all-tiers"]])
def test_explain_passes_over_workloads_that_name_no_tier_where_others_do(write, options) -> None:
    """A chart's router: `wire` prints it as it is."""
    engine = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    engine["spec"]["template"]["metadata"]["annotations"] = {f"{REQUESTING}tier": "smallest"}
    router = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "nginx:1.27").replace("qwen", "router"))
    result = run("explain", write("d.yaml", yaml.safe_dump_all([router, engine])), *options)
    assert (result.exit_code, "✔" in result.stdout) == (0, True), result.output
    assert "router" not in result.output


@pytest.mark.parametrize("options", [[], ["--all-tiers"]])
def test_explain_takes_what_is_wired_already(write, options: list[str]) -> None:
    """As `wire` prints it, and as a cluster has it: without the record."""
    asks = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    asks["spec"]["template"]["metadata"]["annotations"] = {f"{REQUESTING}tier": "smallest"}
    wired = run("wire", write("d.yaml", yaml.safe_dump(asks)), *TIERS[:2]).stdout
    running = list(yaml.safe_load_all(wired))[-1]
    del running["metadata"]["annotations"]
    for text in (wired, yaml.safe_dump(running)):
        result = run("explain", write("w.yaml", text), *TIERS[:2], *options)
        assert (result.exit_code, "✔" in result.stdout) == (0, True), result.output


def test_explain_refuses_a_pod_that_is_no_pod(write) -> None:
    document = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    document["spec"]["template"]["spec"]["containers"][0]["env"] = ["VLLM_USE_V1=1"]
    result = run("explain", write("d.yaml", yaml.safe_dump(document)), "--tier", TIER)
    said = "spec.template.spec.containers[0].env[0]: This is not an object."
    assert (result.exit_code, said in " ".join(result.stdout.split())) == (3, True)


def test_all_tiers_reads_the_paths_of_the_input(write) -> None:
    served = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    nightly = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"jobTemplate": {"spec": served["spec"]}},
    }
    paths = (
        "apiVersion: kvoffload.fn.modelplane.ai/v1alpha1\nkind: Input\n"
        "paths: [{kind: CronJob, path: spec.jobTemplate.spec.template}]"
    )
    path, given = write("c.yaml", yaml.safe_dump(nightly)), write("input.yaml", paths)
    result = run("explain", path, *TIERS[:2], "--all-tiers", "--input", given)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("✔ modelplane-system/smallest")


# an image -> whether an option declares what is missing
HINTED = {"vllm/vllm-openai:latest": True, "registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.2.3": False}


@pytest.mark.parametrize("image", HINTED)
def test_explain_hints_at_a_version_only_where_it_helps(write, image: str) -> None:
    path = write("d.yaml", DEPLOYMENT.replace("IMAGE", image))
    hint = "try: --engine vLLM --engine-version VERSION"
    assert (hint in run("explain", path, *TIERS[:2]).stdout) is HINTED[image]
    more = ("--engine", "vLLM", "--engine-version", "0.33.0")
    assert (run("explain", path, *TIERS[:2], *more).exit_code == 0) is HINTED[image]


SMALLEST = (ROOT / "example/lmcache/smallest.yaml").read_text()
# What the API server would not take -> what `plan` and `explain` say, and `render`
NO_TIER = {
    "an old version": (
        SMALLEST.replace("modelplane.ai/v1alpha1", "modelplane.ai/v1"),
        "apiVersion: is modelplane.ai/v1, expected modelplane.ai/v1alpha1",
        "apiVersion: is modelplane.ai/v1, expected modelplane.ai/v1alpha1",
    ),
    "a number as name": (
        SMALLEST.replace("name: smallest", "name: 123"),
        "metadata.name: must be a string, not 123; write it in quotes",
        "metadata.name must be a string: write it in quotes",
    ),
    "a name of capitals": (
        SMALLEST.replace("name: smallest", "name: Smallest"),
        "metadata.name: must be a DNS name", "metadata.name: must be a DNS name",
    ),
    "no namespace": (
        SMALLEST.replace("namespace: modelplane-system", ""),
        "metadata.namespace: must be set", "metadata.namespace: must be set",
    ),
    "a list as spec": (
        SMALLEST[: SMALLEST.index("spec:")] + "spec: [backend]", "", "spec must be an object",
    ),
    "a list as annotations": (
        SMALLEST.replace("metadata:", "metadata:\n  annotations: [a]"),
        "metadata.annotations must be an object", "metadata.annotations must be an object",
    ),
    "a number as labels": (
        SMALLEST.replace("metadata:", "metadata:\n  labels: 3"),
        "metadata.labels must be an object", "metadata.labels must be an object",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_TIER)
def test_no_command_takes_what_is_no_tier(write, name: str) -> None:
    text, said, said_by_render = NO_TIER[name]
    path, good = write("bad.yaml", text), write("good.yaml", SMALLEST)
    assert run("validate", path).exit_code in (1, 2)
    pod = ROOT / "example/pods/script.yaml"
    for command in (
        ["explain", pod, "--tier", path],
        ["plan", path, "--now", good],
        ["plan", good, "--now", path],
    ):
        result = run(*command)
        assert (result.exit_code, said in result.stderr) == (2, True), (command, result.output)
    rendered = run("render", path, "-o", "tree")
    if said_by_render:
        assert (rendered.exit_code, said_by_render in rendered.stderr) == (2, True)


def test_plan_names_the_file_that_is_no_tier(write) -> None:
    good, bad = write("good.yaml", SMALLEST), write("bad.yaml", SMALLEST.replace("v1alpha1", "v1"))
    assert "Error: --now: apiVersion" in run("plan", good, "--now", bad).stderr
    assert f"Error: {bad}: apiVersion" in run("plan", bad, "--now", good).stderr


def test_plan_names_the_side_that_is_not_valid(write) -> None:
    good, bad = write("good.yaml", SMALLEST), write("bad.yaml", SMALLEST.replace("sizeGiB", "size"))
    assert "Error: --now: the tier is not valid:" in run("plan", good, "--now", bad).stderr
    both = run("plan", "-", "--now", "-")
    assert (both.exit_code, "only one of the tier and --now can" in both.stderr) == (2, True)


def test_render_takes_a_spec_that_is_null(write) -> None:
    text = SMALLEST[: SMALLEST.index("spec:")]
    for spec in ("spec:", "spec: {crossplane: }"):
        result = run("render", write("t.yaml", f"{text}{spec}\n"), "-o", "tree")
        assert "spec.backend: must be set" in " ".join(result.stdout.split()), result.output


IN_A_POOL = """
apiVersion: modelplane.ai/v1alpha1
kind: KVOffloadTier
metadata: {name: pages, namespace: modelplane-system}
spec:
  inferenceClusterRef: {name: gpu}
  allowedNamespaces: {from: All}
  backend: HiCache
  hicache:
    host: {sizeGiB: 8}
    storage: {type: Mooncake, mooncake: {storageTierRef: {name: pool}}}
"""
POOL = """
apiVersion: modelplane.ai/v1alpha1
kind: KVOffloadTier
metadata: {name: pool, namespace: modelplane-system}
spec:
  inferenceClusterRef: {name: gpu}
  backend: Mooncake
  mooncake:
    store: {sizeGiB: 8}
    tenants: {othersSizeGiB: 2, quotas: [{namespace: team-a, sizeGiB: 4}]}
"""


def test_explain_needs_the_required_tier(write) -> None:
    served = DEPLOYMENT.replace("IMAGE", "lmsysorg/sglang:v0.5.23")
    served = served.replace("args: [--model,", "command: [sglang, serve, --model-path,")
    path, alone = write("d.yaml", served), write("tier.yaml", IN_A_POOL)
    both = write("both.yaml", f"{IN_A_POOL}---{POOL}")
    said = "storageTierRef.name: KVOffloadTier modelplane-system/pool is missing: add it to the"
    result = run("explain", path, "--tier", alone)
    assert (result.exit_code, said in result.stderr) == (2, True)
    listed = run("explain", path, "--tier", alone, "--all-tiers")
    assert listed.stdout.startswith("✘ modelplane-system/pages  ") and said in listed.stdout
    for namespace, named in ("team-a", True), ("team-b", False):
        found = run("explain", path, "--tier", both, "--namespace", namespace, "-o", "yaml")
        assert found.exit_code == 0, found.stderr
        assert "kv-pool-" in found.stdout and ('"tenant_id":"team-a"' in found.stdout) is named
    every = run("explain", path, "--tier", both, "--all-tiers").stdout.splitlines()
    assert [line.split()[:2] for line in every] == [
        ["✔", "modelplane-system/pages"],
        ["✔", "modelplane-system/pool"],
    ]


TAKERS = {
    "vllm/vllm-openai:v0.23.0": "LMCache, mode InProcess; Mooncake, payload; Native",
    "vllm/vllm-openai:v0.29.0": (
        "LMCache, payload; LMCache, ipc SharedMemory, payload; LMCache, ipc SharedMemory, "
        "image.tag v0.5.4; Mooncake; Native"
    ),
    "vllm/vllm-openai:latest": "Native",
    "lmsysorg/sglang:v0.5.23": "Mooncake; HiCache",
    "vllm/vllm-openai:v0.9.0": "",
}


@pytest.mark.parametrize("image", TAKERS)
def test_explain_names_tiers_that_accept_a_refused_pod(write, image: str) -> None:
    smallest = ROOT / "example/lmcache/smallest.yaml"
    path = write("d.yaml", DEPLOYMENT.replace("IMAGE", image))
    if "sglang" in image:
        words = "command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B]"
        path.write_text(path.read_text().replace("args: [--model, Qwen/Qwen3-8B]", words))
    found = run("explain", path, "--tier", smallest)
    said = " ".join(found.stdout.replace("│", " ").split())
    assert found.exit_code == 3, found.stdout
    if TAKERS[image]:
        assert f"tiers that would take it: {TAKERS[image]} " in f"{said} "
    else:
        assert "would take it" not in said
    assert "sglang" not in image or "--engine vLLM" not in said


def test_validate_has_exit_codes_for_ci(write) -> None:
    broken = write("broken.yaml", TIER.read_text().replace("backend:", "bakend:"))
    valid = run("validate", TIER, write("s.yaml", SERVICE))
    assert (valid.exit_code, valid.stdout[:26]) == (0, "✔ modelplane-system/chat (")
    invalid = run("validate", TIER, broken)
    assert invalid.exit_code == 1
    assert (
        "✘ modelplane-system/chat" in invalid.stdout and "did you mean backend?" in invalid.stdout
    )
    assert run("validate", write("s.yaml", SERVICE)).exit_code == 2
    assert run("validate", write("y.yaml", "a: [")).exit_code == 2
    assert run("validate", ROOT / "example/mooncake").exit_code == 0


def test_validate_reads_on_after_an_unreadable_file(tmp_path: Path, write) -> None:
    write("a.yaml", "kind: KVOffloadTier\n  a: [")
    write("b.yaml", TIER.read_text())
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    (tmp_path / "dangling.yaml").symlink_to("nowhere")
    result = run("validate", tmp_path)
    assert result.exit_code == 2
    assert "✔ modelplane-system/chat" in result.stdout
    assert "a.yaml:2:4: not valid YAML" in result.stderr
    as_json = json.loads(run("validate", tmp_path, "-o", "json").stdout)
    assert [tier["valid"] for tier in as_json["tiers"]] == [True]
    assert len(as_json["unreadable"]) == 2


@pytest.mark.parametrize("before", [["-f"], ["--filename"]])
def test_files_are_taken_as_kubectl_takes_them(before: list[str]) -> None:
    assert run("validate", *before, TIER).output == run("validate", TIER).output


def test_render_reads_the_standard_input() -> None:
    command = ["render", "-", "-e", str(REQUIRED), "-o", "yaml"]
    piped = CliRunner().invoke(main, command, input=TIER.read_text())
    assert piped.stdout == run("render", TIER, "-e", REQUIRED, "-o", "yaml").stdout


def test_validate_reads_folders_recursively(tmp_path: Path) -> None:
    """A tree as a repository has it: tiers at any depth, and YAML that is no object."""
    tree = {
        "prod/east/chat.yaml": TIER.read_text(),
        "prod/west/chat.yml": TIER.read_text().replace("sizeGiB: 200", "sizeGiB: none"),
        "chart/values.yaml": "replicas: 2",
        "chart/templates/service.yaml": "{{ if .Values.x }}\nkind: Service\n{{ end }}",
        ".git/chat.yaml": "kind: KVOffloadTier",
    }
    for name, text in tree.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = run("validate", tmp_path)
    assert found.exit_code == 1, found.output
    lines = [line for line in found.stdout.splitlines() if line[0] in "✔✘"]
    assert [(line[0], line.rpartition("(")[2]) for line in lines] == [
        ("✔", f"{tmp_path}/prod/east/chat.yaml)"),
        ("✘", f"{tmp_path}/prod/west/chat.yml)"),
    ]
    assert run("validate", tmp_path / "prod" / "east").exit_code == 0
    none = run("validate", tmp_path / "chart")
    assert none.exit_code == 2 and "no KVOffloadTier found" in none.output
    (tmp_path / "chart" / "tier.yaml").write_text("{{ x }}\nkind: KVOffloadTier")
    assert run("validate", tmp_path / "chart").exit_code == 2, "a template is no tier yet"


def test_validate_refuses_two_documents_of_one_name_in_a_file(write) -> None:
    text = TIER.read_text()
    result = run("validate", write("t.yaml", f"{text}\n---\n{text}"))
    assert result.exit_code == 1
    assert result.stdout.count("metadata.name: another document of this file has it") == 2


@pytest.mark.parametrize(
    ("workload", "tier", "message"),
    [
        ("apiVersion: v1\nkind: Secret\n", None, "Secret is not a known kind of workload"),
        (DEPLOYMENT, DEPLOYMENT, "kind is Deployment, expected KVOffloadTier"),
        (DEPLOYMENT, TIER.read_text().replace("backend:", "bakend:"), "did you mean backend?"),
    ],
)
def test_explain_refuses_what_it_cannot_read(write, workload, tier, message) -> None:
    given = TIER if tier is None else write("tier.yaml", tier)
    result = run("explain", write("w.yaml", workload), "--tier", given)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("more", [(), ("--all-tiers",)])
def test_explain_refuses_pods_that_kserve_makes(write, more) -> None:
    result = run("explain", write("w.yaml", KSERVE_MODEL), "--tier", TIER, *more)
    said = "RequestIgnored: KServe makes the pods of spec.predictor.model"
    assert (result.exit_code, said in " ".join(result.stdout.split())) == (3, True)


@pytest.mark.parametrize(
    "path", ["kvoffloadtier", "standalone/inferencecluster", "standalone/modeldeployment"]
)
def test_the_default_pipelines_are_the_installed_compositions(path: str) -> None:
    (installed,) = files.load(ROOT / f"compositions/{path}.yaml")
    xr = installed["spec"]["compositeTypeRef"]
    assert defaults.composition(xr) == installed


def test_plan_prints_effects_and_fails_on_a_refused_edit(write) -> None:
    text = TIER.read_text(encoding="utf-8")
    bigger = write("bigger.yaml", text.replace("sizeGiB: 200\n", "sizeGiB: 300\n"))
    shown = run("plan", bigger, "--now", TIER)
    assert shown.exit_code == 0
    assert "daemonset-agent: At most 1 at a time." in shown.stdout
    (effect,) = yaml.safe_load_all(run("plan", bigger, "--now", TIER, "-o", "yaml").stdout)
    assert (effect["effect"], effect["what"]) == ("its pods restart", "daemonset-agent")
    moved = write("moved.yaml", text.replace("gke-h200-prod", "elsewhere"))
    refused = run("plan", moved, "--now", TIER)
    assert refused.exit_code == 3
    assert "inferenceClusterRef cannot be changed" in refused.stdout


def test_clusters_are_read_from_a_list(write) -> None:
    """As `kubectl get -o yaml` writes them."""
    folder = Path("example/fleet")
    text = (folder / "tier.yaml").read_text(encoding="utf-8")
    bigger = write("bigger.yaml", text.replace("sizeGiB: 200", "sizeGiB: 250"))
    items = list(yaml.safe_load_all((folder / "required/clusters.yaml").read_text()))
    listed = write(
        "list.yaml", yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    )
    planned = run("plan", bigger, "--now", folder / "tier.yaml", "-e", listed)
    assert "wave 1 of 2: gke-h200-canary" in planned.stdout
    shown = run("render", folder / "tier.yaml", "-e", listed, "-o", "tree")
    assert "differs: lmcache.l1.sizeGiB: 200 -> 100\n" in shown.stdout


def test_observed_resources_are_read_from_a_list(write) -> None:
    first = run("render", TIER, "-e", REQUIRED)
    _, *items = yaml.safe_load_all(first.stdout)
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    observed = write("list.yaml", yaml.safe_dump(listed))
    again = run("render", TIER, "-e", REQUIRED, "--observed", observed)
    assert (again.exit_code, again.stdout) == (0, first.stdout)


@pytest.mark.parametrize(
    "metadata", ["{name: [a]}", "{name: a, namespace: {}}", "{name: a, ownerReferences: [x]}"]
)
def test_render_takes_odd_metadata_of_other_objects(write, metadata: str) -> None:
    other = write("o.yaml", f"apiVersion: v1\nkind: A\nmetadata: {metadata}\n")
    for option, code in (("-e", 0), ("--observed", 1)):  # in no namespace
        assert run("render", TIER, "-e", REQUIRED, option, other).exit_code == code


def test_log_goes_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours is logged with its traceback; what is printed stays JSON."""

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(composers.tier, "_answer", broken)  # type: ignore[attr-defined]
    result = CliRunner().invoke(main, ["render", str(TIER), "-e", str(REQUIRED), "-o", "json"])
    assert result.exit_code == 3
    assert isinstance(json.loads(result.stdout), list | dict)
    assert "A composer failed" in result.stderr


VERDICTS = {
    "it asks": ({"tier": "modelplane-system/chat"}, (True, True, "Wired"), 0),
    "nothing asks": ({}, (False, True, "NotRequested"), 0),
    "another tier": ({"tier": "modelplane-system/other"}, (False, False, "TierNotFound"), 3),
    "a misspelled key": ({"teir": "chat"}, (False, False, "RequestIgnored"), 3),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_explain_json_is_the_functions_verdict(write, name: str) -> None:
    annotations, expected, code = VERDICTS[name]
    document = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    metadata = document["spec"]["template"].setdefault("metadata", {})
    metadata["annotations"] = {f"{REQUESTING}{key}": value for key, value in annotations.items()}
    path = write("d.yaml", yaml.safe_dump(document))
    result = run("explain", path, "--tier", TIER, "-o", "json")
    (shown,) = json.loads(result.stdout)["workloads"]
    assert (shown["wired"], shown["fits"], shown["reason"]) == expected
    assert (result.exit_code, bool(shown["fix"])) == (code, code == 3)
    assert shown["workload"]["name"] == "qwen"
    manifests = run("explain", path, "--tier", TIER, "-o", "yaml")
    assert bool(manifests.stdout) == (code == 0), manifests.stdout
    assert ("✘ is not wired" in manifests.stderr) == (code == 3)


def test_explain_shows_added_memory(write) -> None:
    document = yaml.safe_load(DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "200Gi"}}
    path = write("d.yaml", yaml.safe_dump(document))
    tier = ROOT / "example/native/smallest.yaml"
    (shown,) = json.loads(run("explain", path, "--tier", tier, "-o", "json").stdout)["workloads"]
    limit = next(each for each in shown["memory"] if "limits.memory of engine" in each["field"])
    assert limit["before"] == "200Gi"
    assert limit["after"] != "200Gi"
    tree = run("explain", path, "--tier", tier).stdout
    assert f"limits.memory of engine: 200Gi → {limit['after']}" in " ".join(tree.split())


KUBECTL = """#!/bin/sh
case "$*" in
*"--context=away"*) echo 'context "away" does not exist' >&2; exit 1;;
*current-context*) printf prod;;
*api-resources*) echo KINDS;;
*compositeresourcedefinitions*) cat DEFINITIONS;;
*) echo "$*" > ASKED; cat OBJECTS; exit 1;;
esac
"""
ASKED = (
    "--context=prod get --all-namespaces --output=json "
    "kvoffloadtiers.modelplane.ai,modelreplicas.modelplane.ai"
)


@pytest.fixture
def kubectl(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A kubectl that answers from files; it says what was asked for in `asked`."""

    def put(kinds: str) -> Path:
        (tmp_path / "bin").mkdir(exist_ok=True)
        names = {"kind": "ModelReplica", "plural": "modelreplicas"}
        definition = {"kind": "XRD", "spec": {"group": "modelplane.ai", "names": names}}
        write("definitions", json.dumps({"items": [definition]}))
        condition = {"type": "KVOffloadReady", "status": "True", "reason": "Wired"}
        replica = {**yaml.safe_load(REPLICA), "status": {"conditions": [condition]}}
        write("objects", json.dumps({"items": [yaml.safe_load(TIER.read_text()), replica]}))
        text = KUBECTL.replace("KINDS", kinds).replace("ASKED", str(tmp_path / "asked"))
        for name in ("definitions", "objects"):
            text = text.replace(name.upper(), str(tmp_path / name))
        write("bin/kubectl", text).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        return tmp_path / "asked"

    return put


XRDS = "compositeresourcedefinitions.apiextensions.crossplane.io"


def test_status_asks_for_the_kinds_that_are_there(kubectl) -> None:
    asked = kubectl(f"{XRDS} kvoffloadtiers.modelplane.ai modelreplicas.modelplane.ai pods")
    result = run("status")
    assert result.exit_code == 1, result.output  # nobody has reconciled the tier
    assert "✔ ModelReplica team-a/qwen-0: Wired" in result.output
    assert "Reading the control plane of context prod." in result.stderr
    assert asked.read_text().strip() == ASKED
    assert json.loads(run("status", "-o", "json").stdout)["consumers"][0]["name"] == "qwen-0"


def test_status_says_why_there_is_none(kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl("pods")
    for arguments, words in (
        (["status"], "this cluster has no Crossplane"),
        (["doctor", "--context", "away"], "--output=name failed with exit code 1"),
        (["status", "--tier", "kv/x", TIER], "there is no KVOffloadTier kv/x"),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
    monkeypatch.setenv("PATH", "/nowhere")
    assert "kubectl is not on the path" in run("status").stderr


def test_status_of_several_contexts_in_every_format(kubectl) -> None:
    kubectl(f"{XRDS} kvoffloadtiers.modelplane.ai modelreplicas.modelplane.ai pods")
    two = ("status", "--context", "eu", "--context", "us", "-o")
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        result = run(*two, output)
        assert result.exit_code == 1, result.output
        assert [each["context"] for each in read(result.stdout)["tiers"]] == ["eu", "us"]
    assert "Context us:" in run(*two, "text").stdout
    assert run(*two, "wide").stdout.startswith("CONTEXT")
    assert run(*two, "html").stdout.startswith("<!doctype html>")
    away = run("status", "--context", "eu", "--context", "away")
    assert (away.exit_code, away.stdout) == (2, ""), "half a fleet must not look whole"


@pytest.mark.parametrize("command", ["doctor", "status"])
def test_documents_and_a_context_exclude_each_other(command: str) -> None:
    result = run(command, TIER, "--context", "prod")
    assert result.exit_code == 2
    assert "--context asks a control plane: it takes no documents" in result.stderr


def test_status_watch_prints_changes_only(kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl(f"{XRDS} kvoffloadtiers.modelplane.ai modelreplicas.modelplane.ai pods")
    rounds = iter(range(2))

    def sleep(seconds: float) -> None:
        assert seconds == 3
        if next(rounds, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("kv_offload.cli.status.time.sleep", sleep)
    result = run("status", "--watch", "--every", "3")
    assert result.stdout.count("✔ ModelReplica team-a/qwen-0: Wired") == 1
    assert result.stderr.count("Reading the control plane") == 1
    wrong = ["--watch", "--every", "0"]  # would ask without a pause
    for refused in (["--watch", str(TIER)], ["--watch", "-o", "html"], wrong):
        assert run("status", *refused).exit_code == 2


def test_doctor_of_several_contexts_fails_where_one_has_nothing(kubectl) -> None:
    kubectl(f"{XRDS} kvoffloadtiers.modelplane.ai modelreplicas.modelplane.ai pods")
    result = run("doctor", "--context", "eu", "--context", "us")
    assert result.exit_code == 2, "kubectl fails for some kinds"
