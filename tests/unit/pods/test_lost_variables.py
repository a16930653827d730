"""Variables of a tier that a pod's own command takes from its engine, or replaces."""

import pytest
import yaml

from function.problems import Refused
from function.reasons import Reason
from tests.corpus import judged
from tests.unit.pods.test_payload import OLD, pod, wired

NEW = "vllm/vllm-openai:v0.32.0"
API = ["-m", "vllm.entrypoints.openai.api_server", "--model", "org/model"]
SERVE = ["vllm", "serve", "org/model"]
SCRIPT_END = "exec vllm serve org/model"


def script(text):
    end = "" if "vllm serve" in text else SCRIPT_END
    return ["bash", "-c", f"{text}\n{end}"]


# {the command: what of it the message quotes}
LOSES = {
    "python isolated": (["python3", "-I", *API], "python3 -I"),
    "python without environment": (["python3", "-E", *API], "python3 -E"),
    "in a cluster": (["python3", "-uEs", *API], "python3 -uEs"),
    "with the module's option": (["python3", "-Im", *API[1:]], "python3 -Im"),
    "behind an option with a value": (["python3", "-X", "dev", "-I", *API], "python3 -I"),
    "a console script": (["python3", "-I", "/usr/bin/vllm", *SERVE[1:]], "python3 -I"),
    "env without any": (["env", "-i", *SERVE], "env -i"),
    "env without any, dash alone": (["env", "-", *SERVE], "env -"),
    "env without one": (["env", "-u", "PYTHONPATH", *SERVE], "env -u PYTHONPATH"),
    "env without one, joined": (
        ["env", "--unset=PYTHONPATH", *SERVE],
        "env --unset=PYTHONPATH",
    ),
    "env with another": (["env", "PYTHONPATH=/src", *SERVE], "PYTHONPATH=/src"),
    "env before a shell": (["env", "PYTHONPATH=/src", *script(":")], "PYTHONPATH=/src"),
    "no shell expands it": (
        ["env", "PYTHONPATH=$PYTHONPATH:/src", *SERVE],
        "PYTHONPATH=$PYTHONPATH",
    ),
    "sudo": (["sudo", "-E", "-u", "me", *SERVE], "sudo"),
    "setpriv": (["setpriv", "--reset-env", *SERVE], "setpriv --reset-env"),
    "exported": (script("export PYTHONPATH=/src"), "PYTHONPATH=/src"),
    "exported later": (script("PYTHONPATH=/src\nexport PYTHONPATH"), "PYTHONPATH=/src"),
    "single quotes": (script("export PYTHONPATH='$PYTHONPATH:/src'"), "PYTHONPATH="),
    "another variable": (script("export PYTHONPATH=$PYTHONPATH2:/src"), "PYTHONPATH="),
    "declared": (script("declare -x PYTHONPATH=/src"), "PYTHONPATH=/src"),
    "unset": (script("unset PYTHONPATH"), "unset PYTHONPATH"),
    "for the command alone": (["sh", "-c", f"PYTHONPATH=/src {SCRIPT_END}"], "PYTHONPATH=/src"),
    "in a shell of a shell": (
        script("env -u PYTHONPATH sh -c 'vllm serve org/model'"),
        "env -u PYTHONPATH",
    ),
    "for a shell of a shell": (
        script("PYTHONPATH=/src sh -c 'exec vllm serve org/model'"),
        "PYTHONPATH=/src",
    ),
    "in an eval": (script("eval 'export PYTHONPATH=/src'"), "PYTHONPATH=/src"),
}
KEEPS = {
    "appended": script("export PYTHONPATH=$PYTHONPATH:/src"),
    "appended in quotes": script('export PYTHONPATH="${PYTHONPATH}:/src"'),
    "appended where it is set": script('export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}/src"'),
    "added": script("PYTHONPATH+=:/src"),
    "exported as it is": script("export PYTHONPATH"),
    "of another command": script("PYTHONPATH=/src python3 prepare.py"),
    "another variable": script("export MYPYTHONPATH=/src"),
    "env expands by Kubernetes": ["env", "PYTHONPATH=$(PYTHONPATH):/src", *SERVE],
    "env clears and sets": script('exec env -i PATH="$PATH" PYTHONPATH="$PYTHONPATH" vllm serve m'),
    "env of another": ["env", "-u", "HOME", "A=b", *SERVE],
    "python's other options": ["python3", "-u", "-W", "ignore", "-X", "dev", *API],
    "another user": ["gosu", "me", *SERVE],
}
RAY = {"engine": "vLLM", "engine-version": "0.32.0", "packages": "mooncake=0.3.13"}
# Behind these folders the payload would not come first; modules of ours are found wherever.
BEHIND = {
    "in front": script("export PYTHONPATH=/src:$PYTHONPATH"),
    "in front where it is set": script('export PYTHONPATH="/src${PYTHONPATH:+:$PYTHONPATH}"'),
    "env": ["env", "PYTHONPATH=/src:$(PYTHONPATH)", *SERVE],
}


def plain(command, tier="NodeServer", image=NEW):
    found = judged.wired(pod(image, command=command), judged.planned(tier))
    assert found is not None
    return found


@pytest.mark.parametrize("case", LOSES)
def test_an_engine_that_does_not_get_its_search_path_is_refused(case):
    command, quoted = LOSES[case]
    for way in (plain, lambda c: wired("NodeServer", pod(OLD["NodeServer"], command=c))):
        with pytest.raises(Refused) as caught:
            way(command)
        assert caught.value.reason is Reason.POD_CONFLICT
        assert str(caught.value).startswith(f"spec.containers[llm].command: {quoted}")


@pytest.mark.parametrize("case", KEEPS)
def test_a_command_that_keeps_the_search_path_is_wired(case):
    assert plain(KEEPS[case])
    assert wired("NodeServer", pod(OLD["NodeServer"], command=KEEPS[case]))


@pytest.mark.parametrize("case", BEHIND)
def test_folders_in_front_are_refused_with_a_payload_alone(case):
    assert plain(BEHIND[case])
    with pytest.raises(Refused, match="begin the value with"):
        wired("NodeServer", pod(OLD["NodeServer"], command=BEHIND[case]))


@pytest.mark.parametrize("written", ["/src", "/src:$PYTHONPATH", "$PYTHONPATH2"])
def test_the_advice_for_a_search_path_leads_to_a_wired_pod(written):
    with pytest.raises(Refused) as caught:
        wired("NodeServer", pod(OLD["NodeServer"], command=script(f"export PYTHONPATH={written}")))
    start = str(caught.value).partition("begin the value with ")[2].partition(" ")[0].rstrip(".,;")
    advised = script(f"export PYTHONPATH={start}/src")
    assert wired("NodeServer", pod(OLD["NodeServer"], command=advised))


@pytest.mark.parametrize(
    "text", ["export MOONCAKE_CONFIG_PATH=/my.json", "unset MOONCAKE_CONFIG_PATH"]
)
def test_a_variable_of_the_tier_that_the_script_replaces_is_refused(text):
    with pytest.raises(Refused, match="MOONCAKE_CONFIG_PATH"):
        plain(script(text), "Mooncake")
    own = 'export MOONCAKE_CONFIG_PATH="${MOONCAKE_CONFIG_PATH:-/my.json}"'
    assert plain(script(own), "Mooncake")


def test_a_pod_without_variables_of_a_tier_may_clear_its_environment():
    assert plain(["env", "-i", *SERVE], "Native")


def test_workers_of_a_gang_that_lose_the_search_path_are_refused():
    def template(text):
        limits = {"limits": {"nvidia.com/gpu": "8"}}
        serving = {"name": "e", "image": NEW, "command": ["sh", "-c", text], "resources": limits}
        return {"spec": {"containers": [serving]}}

    def gang(worker):
        engine = "ray start --head; vllm serve org/m --tensor-parallel-size 16"
        pods = {"size": 2, "leaderTemplate": template(engine), "workerTemplate": template(worker)}
        return {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "chat"},
            "spec": {"leaderWorkerTemplate": pods},
        }

    joins = "ray start --address=$LWS_LEADER_ADDRESS:6379 --block"
    plan = judged.planned("Mooncake")
    assert judged.wired(gang(joins), plan)
    with pytest.raises(Refused, match="PYTHONPATH=/src"):
        judged.wired(gang(f"export PYTHONPATH=/src; {joins}"), plan)


@pytest.mark.parametrize(
    ("own", "is_wired"),
    [("/src", False), ("${PYTHONPATH}:/src", True), ("/src:${PYTHONPATH}", True)],
)
def test_a_search_path_of_ray_serves_runtime_environment_keeps_the_pods(own, is_wired):
    config = {
        "model_loading_config": {"model_id": "m", "model_source": "org/m"},
        "runtime_env": {"env_vars": {"PYTHONPATH": own}},
    }
    app = {"import_path": "ray.serve.llm:build_openai_app", "args": {"llm_configs": [config]}}
    workers = pod(NEW)
    workers["metadata"]["annotations"] = {
        f"modelplane.ai/kv-offload-{key}": value for key, value in RAY.items()
    }
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": pod(NEW)},
        "workerGroupSpecs": [{"groupName": "g", "rayStartParams": {}, "template": workers}],
    }
    service = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "chat"},
        "spec": {
            "serveConfigV2": yaml.safe_dump({"applications": [app]}),
            "rayClusterConfig": cluster,
        },
    }
    for template in (cluster["headGroupSpec"]["template"], workers):
        del template["spec"]["containers"][0]["command"]
    plan = judged.planned("Mooncake")
    if is_wired:
        assert judged.wired(service, plan)
        return
    with pytest.raises(Refused, match=r"runtime_env\.env_vars: PYTHONPATH=/src"):
        judged.wired(service, plan)


@pytest.mark.parametrize(
    "runner", ["sudo", "env -i", "env -u KV_OFFLOAD_ARGS", "setpriv --reset-env"]
)
@pytest.mark.parametrize("tier", ["Native", "Mooncake"])
def test_opt_in_variable_that_is_lost_on_its_way_is_refused(runner, tier):
    manifest = pod(
        NEW, command=["bash", "-c", f"{runner} sh -c 'vllm serve org/model $KV_OFFLOAD_ARGS'"]
    )
    with pytest.raises(Refused, match="the engine does not get"):
        judged.wired(manifest, judged.planned(tier))
