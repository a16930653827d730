"""SGLang over LMCache: its keys hold the cache identity by a plugin of ours, or it does not start.

One consumer is wired by the function; SGLang 0.5.23 finds the plugin in the files that it mounts,
and builds its cache by the flags that it gets, against the agent that the tier composes. No GPU:
the pool stands in the engine's memory, and goes to the agent by its transfer for such engines.
"""

import json
import os
import subprocess

import pytest

from function.backends.lmcache import modules
from tests.conformance import consumers
from tests.conformance.clients import CHECKERS
from tests.conformance.envs import PYTHON, environment, release
from tests.conformance.manifests import ROOT, Manifest, one, render
from tests.conformance.pod import Pod

EXAMPLE = ROOT / "example/lmcache/shared-memory.yaml"
SIZES = {"--l1-size-gb": "1", "--l1-init-size-gb": "1"}
ENGINE = {
    "name": "engine",
    "image": "lmcache/sglang:v0.5.6",
    "command": ["sglang", "serve"],
    "args": ["--model-path=/mnt/models", "--revision=main"],
}
OWN = "lmcache==0.5.6"


@pytest.fixture
def agent(node, engines):
    manifest = one(render(EXAMPLE, ROOT / "example/lmcache/required"), "DaemonSet")
    template = manifest["spec"]["template"]
    # Without a GPU an engine carries its blocks over itself, which an agent must be told to take.
    template["spec"]["containers"][0]["args"] += ["--supported-transfer-mode", "auto"]
    with Pod(node, template, engines, name="agent", sizes=SIZES) as pod:
        pod.wait_ready(120)
        yield pod


def mounted(manifests: list[Manifest], folder) -> None:
    """The volume of files, as the kubelet lays it out."""
    pod = one(manifests, "Deployment")["spec"]["template"]["spec"]
    (volume,) = (v["configMap"] for v in pod["volumes"] if v["name"] == "kv-offload-files")
    data = one(manifests, "ConfigMap", volume["name"])["data"]
    assert {item["key"] for item in volume["items"]} == set(data)
    for item in volume["items"]:
        (folder / item["path"]).parent.mkdir(parents=True, exist_ok=True)
        (folder / item["path"]).write_text(data[item["key"]])


def test_only_the_same_identity_finds_the_blocks(agent, tmp_path) -> None:
    manifests = consumers.wired(EXAMPLE, {"spec": {"containers": [ENGINE]}}, tmp_path)
    container = consumers.engine(manifests)
    mounted(manifests, tmp_path / "files")
    # The image's LMCache, beside SGLang's environment here.
    (tmp_path / "image").mkdir()
    packages = environment("vllm").path / "lib" / f"python{PYTHON}" / "site-packages"
    for path in packages.glob("lmcache*"):
        (tmp_path / "image" / path.name).symlink_to(path)
    variables = {v["name"]: v["value"] for v in container["env"]}
    assert variables["PYTHONPATH"] == "/etc/kv-offload/lmcache"
    own = variables["KV_OFFLOAD_IDENTITY"]
    variables |= {
        "LMCACHE_MP_HOST": f"tcp://{agent.address}",
        "PYTHONPATH": f"{tmp_path / 'files'}:{tmp_path / 'image'}",
    }
    flags = container["args"][len(ENGINE["args"]) :]
    steps = [[own, 1], ["0123456789ab", 2], [own, 3], ["0123456789ab", 4]]
    done = subprocess.run(
        [
            *(environment("sglang").python, CHECKERS / "sglang_lmcache.py"),
            *(json.dumps({"do": steps}), *flags),
        ],
        capture_output=True,
        text=True,
        env=os.environ | variables,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    said = json.loads(done.stdout.splitlines()[-1])
    assert "kv-offload-lmcache" in said["unloaded"], "without the plugin it does not start"
    assert "not registered" in said["unloaded"]
    (digest,) = {step["name"].rpartition("-")[2] for step in said["steps"]}
    assert len(digest) == 16
    names = [f"/mnt/models##kv-offload-{identity}-{digest}" for identity, _ in steps]
    assert said["steps"] == [
        {"name": names[0], "found": 0, "equal": [1]},
        {"name": names[1], "found": 0, "equal": [2]},
        {"name": names[2], "found": 1024, "equal": [1]},
        {"name": names[3], "found": 1024, "equal": [2]},
    ]


@pytest.mark.minutes
@pytest.mark.parametrize("requirement", ["lmcache==0.5.4", "lmcache==0.5.5", OWN])
def test_older_client_names_identity_and_digest(requirement: str, tmp_path) -> None:
    text = tmp_path / "cache.py"
    text.write_text(modules.module(modules.SGLANG_CACHE).text)
    path = {} if requirement == OWN else {"PYTHONPATH": str(release(requirement))}
    done = subprocess.run(
        [environment("vllm").python, CHECKERS / "lmcache_sglang_key.py", text],
        capture_output=True,
        text=True,
        env=os.environ | path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "version": requirement.partition("==")[2],
        "name": "/mnt/models##kv-offload-0123456789ab-fedcba9876543210",
    }
