"""The advice of a refusal, followed literally, leads to a wired pod."""

import re

import pytest

from function.contract.stock_images.holding import _tags as tags_of
from function.contract.stock_images.repositories import REPOSITORIES
from function.problems import Refused
from tests.corpus import judged

IMAGE = f"registry.example.org/ml/inference@sha256:{'a' * 64}"
PREFIX = "modelplane.ai/kv-offload-"
DECLARED = {"engine": "vLLM", "engine-version": "0.33.0", "packages": "lmcache=0.5.6"}


def pod(annotations):
    container = {"name": "llm", "image": IMAGE, "args": ["--model", "org/model"]}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    metadata = {"name": "chat", "annotations": {PREFIX + k: v for k, v in annotations.items()}}
    spec = {"containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_an_image_by_digest_is_wired_in_one_round():
    plan = judged.planned("NodeServer")
    with pytest.raises(Refused) as caught:
        judged.wired(pod({}), plan)
    message = str(caught.value)
    assert f"{PREFIX}engine" in message
    assert all(f"-{key}" in message for key in DECLARED)
    assert judged.wired(pod(DECLARED), plan)


SCRIPT = 'ARGS=(--model "$MODEL")\nvllm serve "${ARGS[@]}"'
SECRET = {"name": "MODEL", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def scripted(image, script, *env):
    container = {"name": "llm", "image": image, "command": ["bash", "-c", script], "env": [*env]}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat"}, "spec": spec}


def test_script_and_shared_memory_are_told_in_one_round():
    plan = judged.planned("Native")
    manifest = scripted("vllm/vllm-openai:v0.33.0", 'vllm serve m "${ARGS[@]}"')
    small = {"medium": "Memory", "sizeLimit": "1Gi"}
    manifest["spec"]["volumes"] = [{"name": "shm", "emptyDir": small}]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    manifest["spec"]["containers"][0]["volumeMounts"] = mounts
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, plan)
    message = str(caught.value)
    assert "${ARGS[@]}, may hold any flag" in message
    assert "/dev/shm is limited to 1Gi" in message


@pytest.mark.parametrize("tier", ["NodeServer", "Mooncake"])
def test_image_identity_and_script_are_told_in_one_round(tier):
    plan = judged.planned(tier)
    with pytest.raises(Refused) as caught:
        judged.wired(scripted("vllm/vllm-openai:v0.27.0", SCRIPT, SECRET), plan)
    message = str(caught.value)
    assert message.startswith("3 problems: (1) Image vllm/vllm-openai:v0.27.0 holds ")
    assert "(2) The cache identity is unknown" in message
    assert '(3) what "${ARGS[@]}" holds is not known' in message
    # Words to add by hand would carry an identity that is not known yet.
    assert "by hand" not in message
    # Each is done as it says: an image, the model in args, the variable in the script.
    assert "v0.33.0" in message and "$KV_OFFLOAD_ARGS" in message
    mended = "vllm serve org/model $KV_OFFLOAD_ARGS"
    assert judged.wired(scripted("vllm/vllm-openai:v0.33.0", mended), plan)


@pytest.mark.parametrize("tier", ["NodeServer", "Mooncake"])
def test_an_image_and_a_hidden_flag_are_told_in_one_round(tier):
    plan = judged.planned(tier)
    hidden = {"name": "EXTRA", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    with pytest.raises(Refused) as caught:
        judged.wired(scripted("vllm/vllm-openai:v0.27.0", "vllm serve o/m $EXTRA", hidden), plan)
    message = str(caught.value)
    assert "holds" in message and "$EXTRA" in message
    mended = "vllm serve o/m --max-model-len 8192"
    assert judged.wired(scripted("vllm/vllm-openai:v0.33.0", mended), plan)


def test_an_unknown_version_and_an_unknown_model_are_told_in_one_round():
    manifest = scripted("vllm/vllm-openai:latest", 'vllm serve "$MODEL"', SECRET)
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, judged.planned("Mooncake"))
    message = str(caught.value)
    assert "Unknown vLLM and mooncake versions in image vllm/vllm-openai:latest" in message
    assert message.count("engine-version") == 1
    assert "The cache identity is unknown" in message
    # Only the variable can be given a value; the version has its own annotation.
    assert "Give MODEL (line 1) a value in the container's env" in message


SGLANG = "python3 -m sglang.launch_server --model-path org/model"


@pytest.mark.parametrize(
    ("image", "script", "tier"),
    [
        ("vllm/vllm-openai:latest", "vllm serve org/model", "NodeServer"),
        ("vllm/vllm-openai:latest", "vllm serve org/model", "Mooncake"),
        ("corp/vllm-openai:latest", "vllm serve org/model", "NodeServer"),
        ("registry.example.org/ml/x:latest", "vllm serve org/model", "Mooncake"),
        ("registry.example.org/ml/x:7", "vllm serve org/model", "NodeServer"),
        ("registry.example.org/ml/x:7", "vllm serve org/model", "Mooncake"),
        ("lmsysorg/sglang:latest", SGLANG, "Mooncake"),
    ],
)
def test_an_unknown_image_is_one_problem_with_one_declaration(image, script, tier):
    """A version that is not known is asked for once, with the packages that follow from it."""
    plan, manifest = judged.planned(tier), scripted(image, script)
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, plan)
    message = str(caught.value)
    assert message.startswith("Unknown "), message
    (declared,) = re.findall(
        r'annotate modelplane\.ai/kv-offload-([\w -]+), e\.g\. "([^"]+)"(?: and "([^"]+)")?',
        message,
    )
    keys = declared[0].split(" and -")
    # What a stock image holds follows from its version; of one's own it is declared as well.
    assert (keys == ["engine-version"]) == image.startswith(("vllm/", "lmsysorg/"))
    said = {PREFIX + key: value for key, value in zip(keys, declared[1:], strict=False)}
    manifest["metadata"]["annotations"] = said
    assert judged.wired(manifest, plan)


def test_a_tag_is_to_be_pinned_where_a_release_of_it_fits():
    for image, script, pinned in (
        ("vllm/vllm-openai:latest", "vllm serve org/model", True),
        ("mirror.corp/vllm/vllm-openai:latest", "vllm serve org/model", True),
        ("corp/vllm-openai:latest", "vllm serve org/model", False),
        ("lmsysorg/sglang:latest", SGLANG, False),
    ):
        with pytest.raises(Refused) as caught:
            judged.wired(scripted(image, script), judged.planned("NodeServer"))
        assert ("pin the image's tag to one of these" in str(caught.value)) is pinned, image


def test_advice_on_an_unknown_version_alone_is_to_declare_it():
    manifest = scripted("vllm/vllm-openai:latest", "vllm serve org/model")
    manifest["metadata"]["annotations"] = {PREFIX + "packages": "lmcache=0.5.6"}
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, judged.planned("NodeServer"))
    assert "(annotate modelplane.ai/kv-offload-engine-version)" in str(caught.value)
    assert "in args" not in str(caught.value) and "in env" not in str(caught.value)


def gang(image, size):
    """A LeaderWorkerSet of two pods that limits /dev/shm, as its project's page has it."""
    shm = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}

    def template(script):
        container = {"name": "vllm", "image": image, "command": ["sh", "-c", script]}
        container |= {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
        container |= {"volumeMounts": [{"mountPath": "/dev/shm", "name": "dshm"}]}
        return {"spec": {"containers": [container], "volumes": [shm]}}

    leader = "bash multi-node-serving.sh leader; python3 -m vllm.entrypoints.openai.api_server"
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "chat"},
        "spec": {
            "leaderWorkerTemplate": {
                "size": 2,
                "leaderTemplate": template(f"{leader} --model o/m --tensor-parallel-size 16"),
                "workerTemplate": template("bash multi-node-serving.sh worker"),
            }
        },
    }


@pytest.mark.parametrize("tag", ["v0.18.0", "latest"])
def test_a_version_and_what_any_other_is_refused_for_are_told_in_one_round(tag):
    with pytest.raises(Refused) as caught:
        judged.wired(gang(f"vllm/vllm-openai:{tag}", "15Gi"), judged.planned("NodeServer"))
    message = str(caught.value)
    assert "lmcache 0.5.5 to 0.5.x" in message and "The engine spans 2 pods" in message


def test_a_version_and_shared_memory_are_told_in_one_round():
    plan = judged.planned("Native")
    with pytest.raises(Refused) as caught:
        judged.wired(gang("vllm/vllm-openai:v0.18.0", "15Gi"), plan)
    message = str(caught.value)
    assert "OffloadingConnector needs vLLM 0.20" in message
    size = re.search(r"/dev/shm is limited to 15Gi.* raise it to (\w+)", message)
    assert size, message
    assert judged.wired(gang("vllm/vllm-openai:v0.33.0", size[1]), plan)


@pytest.mark.parametrize("tier", ["NodeServer", "Mooncake"])
def test_no_other_tier_is_advised_for_an_engine_that_is_too_old(tier):
    manifest = scripted("vllm/vllm-openai:v0.18.0", "vllm serve org/model")
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, judged.planned(tier))
    assert "needs vLLM" in str(caught.value) and "or a tier with" not in str(caught.value)


def in_a_config_map(image):
    """A Pod that starts its engine by a script of ConfigMap `scripts`."""
    pod = scripted(image, "")
    (container,) = pod["spec"]["containers"]
    container |= {"command": ["bash", "/scripts/start.sh"]}
    container |= {"volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}]}
    pod["spec"]["volumes"] = [{"name": "scripts", "configMap": {"name": "scripts"}}]
    return pod


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.33.0", "registry.example.org/mine:1"])
def test_a_config_map_to_add_is_named(image):
    plan = judged.planned("Native")
    with pytest.raises(Refused) as caught:
        judged.wired(in_a_config_map(image), plan)
    message = str(caught.value)
    assert "script /scripts/start.sh is not known here" in message
    assert "ConfigMap 'scripts' holds it and is not given with the pods: add it" in message
    assert "cache identity" not in message
    script = {"start.sh": "exec vllm serve o/m $KV_OFFLOAD_ARGS"}
    added = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scripts"}}
    assert judged.wired(in_a_config_map(image), plan, [{**added, "data": script}])


@pytest.mark.parametrize("tier", ["Native", "NodeServer", "Mooncake"])
@pytest.mark.parametrize("args", [[], ["Qwen/Qwen2.5-7B-Instruct"]])
def test_kserves_variable_is_the_advice_where_its_preset_starts_the_engine(tier, args):
    """Words in args do not show the command, so the message does not ask for them."""
    main = {"name": "main", "image": "vllm/vllm-openai:v0.31.0", **({"args": args} if args else {})}
    service: judged.Json = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "LLMInferenceService",
        "metadata": {"name": "qwen"},
        "spec": {
            "model": {"uri": "hf://Qwen/Qwen2.5-7B-Instruct"},
            "template": {"containers": [main]},
        },
    }
    plan = judged.planned(tier)
    with pytest.raises(Refused) as caught:
        judged.wired(service, plan)
    message = str(caught.value)
    assert "VLLM_ADDITIONAL_ARGS in the env of container main" in message
    assert "in args" not in message and "baseRefs" not in message
    main["env"] = [{"name": "VLLM_ADDITIONAL_ARGS", "value": ""}]
    main.pop("args", None)
    found = judged.wired(service, plan)
    assert found and "(engine by KServe's preset, " in found.summary
    assert "reads from KServe 0.18 on; an older KServe starts the engine without" in found.summary
    # A preset for several nodes reads the variable in older ones too.
    service["spec"] |= {"worker": {"containers": [main]}, "parallelism": {"data": 2}}
    assert "0.18" not in judged.verdict(service, plan)[1]
    # A command of one's own is no preset's.
    service["spec"]["template"] = {"containers": [main | {"command": ["vllm", "serve", "o/m"]}]}
    for key in ("worker", "parallelism"):
        service["spec"].pop(key)
    assert "(engine by the command, " in judged.verdict(service, plan)[1]


MODEL = {"name": "MODEL", "value": "o/m"}
NEW_IMAGE = "vllm/vllm-openai:v0.33.0"


def test_a_default_by_a_command_leaves_the_value_of_env():
    plan = judged.planned("NodeServer")
    script = 'TP=${TP:-$(nvidia-smi -L | wc -l)}\nvllm serve o/m -tp "$TP" $KV_OFFLOAD_ARGS'
    with pytest.raises(Refused, match=r"Give TP \(line 1\) a value in the container's env"):
        judged.wired(scripted(NEW_IMAGE, script), plan)
    found = judged.wired(scripted(NEW_IMAGE, script, {"name": "TP", "value": "2"}), plan)
    assert found and found.engines[0].flags["--tensor-parallel-size"] == "2"


def test_a_sourced_file_is_named_where_it_hides_a_value_of_env():
    plan = judged.planned("NodeServer")
    script = 'set -a; . /etc/vllm.env; set +a\nvllm serve "$MODEL" $KV_OFFLOAD_ARGS'
    for env in ([MODEL], []):
        with pytest.raises(Refused) as caught:
            judged.wired(scripted(NEW_IMAGE, script, *env), plan)
        message = str(caught.value)
        assert "Remove `. /etc/vllm.env` (line 1), which may set any variable" in message
        assert ("ive MODEL (line 2) a value" in message) is (not env)
    assert judged.wired(scripted(NEW_IMAGE, script.replace(". /etc/vllm.env", ":"), MODEL), plan)
    assert judged.wired(scripted(NEW_IMAGE, script.replace('"$MODEL"', "o/m"), MODEL), plan)


def offered(message):
    """Yield every image that a message offers; a series holds each tag from first to last."""
    for name, first, last in re.findall(r"([\w./-]+):(v[\w.-]+[\w])(?: to (v[\w.-]+\w))?", message):
        tags = [
            tag for row in REPOSITORIES if (row.home or row.path) == name for tag in tags_of(row)
        ]
        at = tags.index(first)
        yield from (f"{name}:{tag}" for tag in tags[at : tags.index(last or first) + 1])


@pytest.mark.parametrize("tier", ["NodeServer", "InProcess", "Mooncake"])
@pytest.mark.parametrize("size", [1, 2])
def test_every_image_that_is_offered_is_wired(tier, size):
    plan = judged.planned(tier)

    def manifest(image):
        return gang(image, "900Gi") if size == 2 else scripted(image, "vllm serve org/model")

    with pytest.raises(Refused) as caught:
        judged.wired(manifest("vllm/vllm-openai:latest"), plan)
    message = str(caught.value)
    if "The engine spans" in message:
        return
    images = list(offered(message.partition("Use an image that holds it (")[2].partition(")")[0]))
    assert images
    for image in images:
        assert judged.wired(manifest(image), plan), image


def test_a_gang_is_not_sent_to_a_tier_that_refuses_it():
    with pytest.raises(Refused) as caught:
        judged.wired(gang("vllm/vllm-openai:v0.33.0", "900Gi"), judged.planned("InProcess"))
    message = str(caught.value)
    assert "NodeServer" not in message
    assert "Use a tier of backend Mooncake, or vLLM 0.25" in message
    for image, tier in (("v0.33.0", "Mooncake"), ("v0.25.1", "InProcess")):
        assert judged.wired(gang(f"vllm/vllm-openai:{image}", "900Gi"), judged.planned(tier))


@pytest.mark.parametrize(
    ("script", "mended"),
    [
        (
            'ARGS=(--port 8000 $KV_OFFLOAD_ARGS)\nexec vllm serve o/m "${ARGS[@]}"',
            'ARGS=(--port 8000)\nexec vllm serve o/m "${ARGS[@]}" $KV_OFFLOAD_ARGS',
        ),
        (
            'start() {\nexec vllm serve o/m "$@"\n}\nstart $KV_OFFLOAD_ARGS',
            'start() {\nexec vllm serve o/m "$@" $KV_OFFLOAD_ARGS\n}\nstart x',
        ),
    ],
)
@pytest.mark.parametrize("mounted", [True, False])
def test_a_list_of_words_does_not_pass_the_variable(script, mended, mounted):
    plan = judged.planned("Native")

    def wired(text):
        if not mounted:
            return judged.wired(scripted(NEW_IMAGE, text), plan)
        named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scripts"}}
        return judged.wired(
            in_a_config_map(NEW_IMAGE), plan, [{**named, "data": {"start.sh": text}}]
        )

    with pytest.raises(Refused) as caught:
        wired(script)
    message = str(caught.value)
    assert message.count("in an array, or among a function's arguments, it is not read") == 1
    assert wired(mended)


@pytest.mark.parametrize("tier", ["Native", "NodeServer"])
def test_problems_are_numbered_once(tier):
    script = 'start() {\nlocal model="$1"; shift\nexec vllm serve "$model" "$@"\n}\n'
    script = {"start.sh": f'{script}start "$MODEL" $KV_OFFLOAD_ARGS'}
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scripts"}}
    with pytest.raises(Refused) as caught:
        judged.wired(in_a_config_map(NEW_IMAGE), judged.planned(tier), [{**named, "data": script}])
    assert str(caught.value).count(" problems: ") == 1


BRANCHES = "if test -e /dev/a; then vllm serve {}; else vllm serve {}; fi"


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("org/a", "org/b", "they differ in model"),
        ("m --dtype float16", "m", "they differ in --dtype"),
        ("m", "m --kv-cache-dtype=fp8 --port 1", "they differ in --kv-cache-dtype"),
        ("m", "m --dtype $DTYPE", "--dtype"),
    ],
)
def test_starts_that_make_other_blocks_have_no_identity(one, other, said):
    manifest = scripted("vllm/vllm-openai:v0.33.0", BRANCHES.format(one, other))
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, judged.planned("NodeServer"))
    assert said in str(caught.value)
    # Memory of one pod is nobody else's.
    assert judged.wired(manifest, judged.planned("Native"))
    # As the advice says: one start, and what differs from the env.
    env = [{"name": "MODEL", "value": "org/a"}, {"name": "DTYPE", "value": "float16"}]
    mended = "vllm serve $MODEL --dtype $DTYPE"
    assert judged.wired(
        scripted("vllm/vllm-openai:v0.33.0", mended, *env), judged.planned("NodeServer")
    )


def test_more_starts_than_are_compared_have_no_identity():
    cases = " ".join(f"{n}) vllm serve m --port {n} ;;" for n in range(17))
    manifest = scripted("vllm/vllm-openai:v0.33.0", f"case $A in {cases} esac")
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, judged.planned("NodeServer"))
    assert "which of more than 16 different starts" in str(caught.value)


def test_starts_that_differ_in_a_port_have_one_identity():
    script = BRANCHES.format("m --port 1", "m --port 2")
    manifest = scripted("vllm/vllm-openai:v0.33.0", script)
    assert judged.wired(manifest, judged.planned("NodeServer"))
