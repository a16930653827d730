"""What ConfigMaps bring into a container counts as if its template held it."""

import pytest

from function.problems import Refused
from tests.corpus import judged

SCRIPT = "#!/bin/bash\nset -eu\nexport A=$(hostname)\nexec vllm serve {model} {more}\n"
TEXTS = {
    "settings": {"MODEL": "org/mine", "PYTHONPATH": "/opt/mine", "COST": "$$ $(MODEL)"},
    "segments": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "scripts": {
        "opted.sh": SCRIPT.format(model='"$MODEL"', more="$KV_OFFLOAD_ARGS"),
        "plain.sh": SCRIPT.format(model="org/mine", more=""),
        "own.sh": SCRIPT.format(model="org/mine", more="--kv-offloading-size 4"),
        "start.py": "#!/usr/bin/env python3\nprint()\n",
        "env.sh": "#!/usr/bin/env -S bash -e\nexec vllm serve org/mine $KV_OFFLOAD_ARGS\n",
    },
}


def config_maps(texts=TEXTS):
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        for name, data in texts.items()
    ]


def pod(*sources, env=(), **container):
    engine = {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.33.0",
        "env": list(env),
        "envFrom": [{"configMapRef": {"name": name}} for name in sources],
        "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        **container,
    }
    volumes = [{"name": "scripts", "configMap": {"name": "scripts"}}]
    spec = {"containers": [engine], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat"}, "spec": spec}


def wired(manifest, tier="NodeServer", texts=TEXTS):
    return judged.wired(manifest, judged.planned(tier), config_maps(texts))


def refusal(manifest, tier="NodeServer", texts=TEXTS):
    with pytest.raises(Refused) as caught:
        wired(manifest, tier, texts)
    return str(caught.value)


def environment(found):
    container = found.manifest["spec"]["containers"][0]
    return {each["name"]: each["value"] for each in container["env"]}


ARGS = {"args": ["--model", "$(MODEL)"]}


def test_a_variable_of_a_config_map_is_the_model_argument():
    (engine,) = wired(pod("settings", **ARGS)).engines
    assert (engine.model, engine.identity_unknown) == ("org/mine", "")
    written = pod(env=[{"name": "MODEL", "value": "org/mine"}], **ARGS)
    assert wired(written).engines[0].identity == engine.identity


@pytest.mark.parametrize("tier", ["NodeServer", "Mooncake", "Native"])
def test_a_setting_of_a_config_map_does_not_pass_unseen(tier):
    assert "expandable_segments" in refusal(pod("segments", args=["--model", "m"]), tier)


def test_a_variable_from_a_key_of_a_config_map_is_read():
    source = {"configMapKeyRef": {"name": "segments", "key": "PYTORCH_CUDA_ALLOC_CONF"}}
    own = [{"name": "PYTORCH_CUDA_ALLOC_CONF", "valueFrom": source}]
    assert "expandable_segments" in refusal(pod(env=own, args=["--model", "m"]))
    model = {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "MODEL"}}}
    found = wired(pod(env=[model], args=["--model", "$(M)"]))
    assert found.engines[0].model == "org/mine"
    assert model in found.manifest["spec"]["containers"][0]["env"]


@pytest.mark.parametrize("command", [7, "vllm", [None], [["sh"]], ["sh", 1]])
def test_a_malformed_command_is_a_refusal(command):
    assert refusal(pod("settings", command=command))


def test_env_wins_over_a_config_map():
    own = [{"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "max_split_size_mb:64"}]
    assert wired(pod("segments", env=own, args=["--model", "m"]))


def test_a_search_path_of_a_config_map_is_kept():
    assert environment(wired(pod("settings", **ARGS)))["PYTHONPATH"].startswith("/opt/mine:/")


def test_another_value_of_a_needed_variable_in_a_config_map_is_refused():
    found = wired(pod(args=["--model", "m"]), "Mooncake")
    name, value = next(
        (n, v) for n, v in environment(found).items() if "$" not in v and n != "PYTHONPATH"
    )
    manifest = pod("other", args=["--model", "m"])
    with pytest.raises(Refused, match=name):
        wired(manifest, "Mooncake", {**TEXTS, "other": {name: f"{value}9"}})


@pytest.mark.parametrize(
    "start",
    [
        {"command": ["bash", "/scripts/opted.sh"]},
        {"command": ["bash", "-eu", "/scripts/opted.sh"], "args": ["$(MODEL)"]},
        {"command": ["/scripts/opted.sh"]},
        {"command": ["tini", "--"], "args": ["/bin/bash", "/scripts/opted.sh"]},
    ],
)
def test_a_start_script_of_a_config_map_is_read(start):
    found = wired(pod("settings", **start))
    assert found.engines[0].model == "org/mine"
    assert "LMCacheMPConnector" in environment(found)["KV_OFFLOAD_ARGS"]
    container = found.manifest["spec"]["containers"][0]
    assert {key: container[key] for key in start} == start


def test_a_start_script_that_does_not_opt_in_is_told_so():
    message = refusal(pod(command=["/scripts/plain.sh"]))
    assert "$KV_OFFLOAD_ARGS" in message
    assert "ConfigMap" in message


def test_a_flag_in_a_start_script_does_not_pass_unseen():
    assert "--kv-offloading-size" in refusal(pod(command=["sh", "/scripts/own.sh"]))


@pytest.mark.parametrize("name", ["start.py", "env.sh", "none.sh"])
def test_another_interpreter_is_not_read(name):
    assert "not known here" in refusal(pod(command=[f"/scripts/{name}"]))


def test_a_changed_config_map_is_a_changed_template():
    def digest(texts):
        return wired(pod("settings", **ARGS), texts=texts).record.template

    changed = {**TEXTS, "settings": {**TEXTS["settings"], "PYTHONPATH": "/opt/other"}}
    assert digest(TEXTS) == digest({**TEXTS, "segments": {}}) != digest(changed)


def test_a_source_that_cannot_be_seen_hides_what_stands_before_it():
    manifest = pod("settings", args=["--model", "$(MODEL)"])
    sources = manifest["spec"]["containers"][0]["envFrom"]
    sources.append({"secretRef": {"name": "later"}})
    assert "the model argument" in wired(manifest, "Native").engines[0].identity_unknown
    sources.reverse()
    assert wired(manifest, "Native").engines[0].model == "org/mine"


def test_a_variable_that_a_later_source_may_change_is_refused_by_its_name():
    manifest = pod(args=["--model", "org/mine"])
    own = {"prefix": "MOONCAKE_", "configMapRef": {"name": "own"}}
    manifest["spec"]["containers"][0]["envFrom"] = [own, {"secretRef": {"name": "later"}}]
    said = "MOONCAKE_CONFIG_PATH is taken from configMapKeyRef own/CONFIG_PATH"
    with pytest.raises(Refused, match=said):
        wired(manifest, "Mooncake", {**TEXTS, "own": {"CONFIG_PATH": "/mine"}})


def test_a_secret_is_no_config_map_without_a_name():
    texts = config_maps({"": {"MODEL": "org/other"}})
    manifest = pod(args=["--model", "$(MODEL)"])
    manifest["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "s"}}]
    (engine,) = judged.wired(manifest, judged.planned("Native"), texts).engines
    assert "the model argument" in engine.identity_unknown


@pytest.mark.parametrize("options", [["-s"], ["-n"], ["-c"]])
def test_a_file_that_the_shell_does_not_run_is_not_read(options):
    assert refusal(pod("settings", command=["bash", *options, "/scripts/opted.sh"]))


def test_a_program_of_path_is_no_file_of_the_working_directory():
    texts = {**TEXTS, "scripts": {"vllm": TEXTS["scripts"]["opted.sh"]}}
    manifest = pod("settings", command=["vllm", "serve", "org/real"], workingDir="/scripts")
    assert wired(manifest, "Native", texts).engines[0].model == "org/real"


TWO = "vllm serve org/mine --port 8000 $KV_OFFLOAD_ARGS &\n" * 2 + "wait -n\n"
LOOP = "for i in 0 1; do vllm serve org/mine --port 800$i $KV_OFFLOAD_ARGS & done; wait"


@pytest.mark.parametrize("tier", ["NodeServer", "Mooncake", "Native"])
@pytest.mark.parametrize("script", [TWO, LOOP])
def test_a_script_of_several_engines_at_once_is_refused(script, tier):
    texts = {"scripts": {"two.sh": script}}
    found = refusal(pod(command=["bash", "/scripts/two.sh"]), tier, texts)
    assert "container engine starts several engines at once, in the background" in found
    assert "several engines at once" in refusal(pod(command=["bash", "-c", script]), tier)
