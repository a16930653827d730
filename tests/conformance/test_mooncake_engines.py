"""The wired engines of a Mooncake tier, read by vLLM's and SGLang's own parsers and classes."""

import json
import subprocess

import pytest

from tests.conformance.envs import environment
from tests.conformance.mooncake import EXAMPLES, engine

# SGLang's reading of its extra configuration, and nothing else of that module: the rest wants CUDA.
SGLANG = """
import ast, importlib.util, json, os, sys
from dataclasses import dataclass, asdict
from typing import Optional
(folder,) = importlib.util.find_spec("sglang").submodule_search_locations
spec = importlib.util.spec_from_file_location("environ", folder + "/srt/environ.py")
environ = importlib.util.module_from_spec(spec)
spec.loader.exec_module(environ)
envs = environ.envs
path = folder + "/srt/mem_cache/storage/mooncake_store/mooncake_store.py"
tree = ast.parse(open(path).read())
wanted = ("_parse_global_segment_size", "_normalize_tenant_id", "MooncakeStoreConfig")
tree.body = [n for n in tree.body if getattr(n, "name", "") in wanted]
scope = dict(globals(), DEFAULT_TENANT_ID="default", __name__="__main__")
exec(compile(tree, path, "exec"), scope)
extra = json.loads(sys.argv[1])
print(json.dumps(asdict(scope["MooncakeStoreConfig"].load_from_extra_config(extra))))
"""


TIERS = [EXAMPLES / f"{name}.yaml" for name in ("smallest", "ha-rdma", "ssd", "external")]
each = pytest.mark.parametrize("tier", TIERS, ids=lambda path: path.stem)


def container(tier, folder, name):
    template, files = engine(tier, folder, name)
    (found,) = template["spec"]["containers"]
    return found, {v["name"]: v.get("value") for v in found["env"]}, files


@each
def test_vllm_accepts_the_emitted_configuration(vllm, tier, tmp_path):
    found, env, files = container(tier, tmp_path, "vllm")
    for file, text in files["data"].items():
        (tmp_path / file).write_text(text)
    told = {"MOONCAKE_CONFIG_PATH": "/x", "PYTHONPATH": str(tmp_path)}
    parsed = vllm.parse(["vllm", "serve", *found["args"]], told)
    assert parsed.ok, parsed.error
    config = parsed.result["kv_transfer_config"]
    assert config["kv_connector"] == "MooncakeStoreConnector"
    assert config["kv_load_failure_policy"] == "recompute"
    assert len(config["kv_connector_extra_config"]["cache_prefix"]) == 12
    (mounted,) = [m["mountPath"] for m in found["volumeMounts"] if "files" in m["name"]]
    folder, _, file = env["MOONCAKE_CONFIG_PATH"].rpartition("/")
    assert folder == mounted
    written = json.loads(files["data"][file])
    assert written["global_segment_size"] == 0 and written["local_buffer_size"] == 512 << 20
    assert env["PYTHONPATH"] == mounted  # of every pod, and so of Ray's workers
    assert set(env) - {"MOONCAKE_CONFIG_PATH", "PYTHONPATH"} <= set(
        env["VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"].split(",")
    ) | {"VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"}


def test_sglang_accepts_the_emitted_configuration(sglang, tmp_path):
    tier = EXAMPLES / "ha-rdma.yaml"
    found, _, _ = container(tier, tmp_path, "sglang")
    parsed = sglang.parse([*found.get("command", ()), *found.get("args", ())])
    assert parsed.ok, parsed.error
    resolved = parsed.result["resolved"]
    assert resolved["enable_hierarchical_cache"] is True
    assert resolved["hicache_storage_backend"] == "mooncake"
    assert resolved["page_size"] == 64


@each
def test_sglang_reads_one_configuration_source(tier, tmp_path):
    found, _, _ = container(tier, tmp_path, "sglang")
    words = [*found.get("command", ()), *found.get("args", ())]
    text = words[words.index("--hicache-storage-backend-extra-config") + 1].replace("$$", "$")
    done = subprocess.run(
        [environment("sglang").python, "-c", SGLANG, text], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout.splitlines()[-1])
    extra = json.loads(text)
    assert {key: read[key] for key in extra if key in read} == {
        key: value for key, value in extra.items() if key in read
    }
    assert (read["global_segment_size"], read["tenant_id"]) == (0, "default")
    assert len(extra["extra_backend_tag"]) == 12
