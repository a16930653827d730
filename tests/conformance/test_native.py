"""Engines of a Native tier, read by vLLM 0.33.0's own parser, tiers and file I/O."""

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from function.backends.native import BACKEND
from function.backends.native.connector import BOUNDED_BUCKET, CHECKED_FILES
from tests.conformance import buckets, consumers, evictor
from tests.conformance.bench import metrics
from tests.conformance.clients import CHECKERS
from tests.conformance.envs import environment, environment_with
from tests.conformance.manifests import ROOT, Manifest, one, render
from tests.conformance.pod import Pod
from tests.unit.backends.native import native
from tests.unit.backends.native.golden import ENGINES, GOLDENS

EXAMPLES = ROOT / "example" / "native"
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
V1 = "vllm.distributed.kv_transfer.kv_connector.v1"
EVICTOR = 8081


def wired(example: str, args: list[str], folder: Path) -> Manifest:
    """The container of an engine that is wired to that example's tier."""
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.33.0", "args": args}
    template = {"spec": {"containers": [container]}}
    return consumers.engine(consumers.wired(EXAMPLES / f"{example}.yaml", template, folder))


def asked(vllm, container: Manifest, policy: str = "recompute") -> dict[str, Any]:
    parsed = vllm.parse(["vllm", "serve", *container["args"]], {})
    assert parsed.ok, parsed.error
    assert parsed.result["kv_transfer_config"]["kv_load_failure_policy"] == policy
    return parsed.result


def test_vllm_accepts_the_cpu_memory(vllm, tmp_path):
    result = asked(vllm, wired("smallest", ["Qwen/Qwen3-8B"], tmp_path))
    config = result["kv_transfer_config"]
    assert (config["kv_connector"], config["kv_role"]) == ("OffloadingConnector", "kv_both")
    assert config["kv_connector_extra_config"] == {"cpu_bytes_to_use": 64 * 2**30}


def test_vllm_loads_the_users_connector_first(vllm, tmp_path):
    args = ["Qwen/Qwen3-8B", "--kv-transfer-config", json.dumps(NIXL)]
    # A transfer that fails is for the pair's own client to know: vLLM's default stays.
    result = asked(vllm, wired("smallest", args, tmp_path), policy="fail")
    names = [found["name"] for found in result["connectors"]]
    assert names == ["MultiConnector", "NixlPullConnector", "OffloadingConnector"]


@pytest.mark.parametrize("golden", ("simple", "disk"))
def test_vllm_accepts_the_simple_connector(vllm, golden):
    injected = BACKEND.inject(GOLDENS.of(golden), ENGINES["vllm"])
    config = json.dumps({**injected.connector, **injected.connector_options})
    parsed = vllm.parse(["vllm", "serve", "m", "--kv-transfer-config", config], {})
    assert parsed.ok, parsed.error
    assert [found["name"] for found in parsed.result["connectors"]] == ["SimpleCPUOffloadConnector"]
    assert parsed.result["hma"] is True


# The simple connector's own reading of its keys, up to where it would need an engine.
_SIMPLE = """
import inspect, json, sys
from vllm.distributed.kv_transfer.kv_connector.v1 import simple_cpu_offload_connector as simple
extra = json.loads(sys.argv[1])
source = inspect.getsource(simple.SimpleCPUOffloadConnector.__init__)
unread = [key for key in extra if f'"{key}"' not in source]
assert not unread, unread
assert extra.get("kv_offload_backend", "cpu") in simple.VALID_KV_OFFLOAD_BACKENDS
assert extra.get("kv_offload_backend") == "disk" or not set(extra) & set(simple._DISK_ONLY_KEYS)
print("read")
"""


@pytest.mark.parametrize("golden", ("simple", "disk"))
def test_the_simple_connector_reads_every_key(golden):
    """vLLM ignores a key that it does not know, without a word."""
    extra = BACKEND.inject(GOLDENS.of(golden), ENGINES["vllm"]).connector
    told = json.dumps(extra["kv_connector_extra_config"])
    done = subprocess.run(
        [environment("vllm").python, "-c", _SIMPLE, told],
        capture_output=True,
        text=True,
        env={**os.environ, "VLLM_TARGET_DEVICE": "cpu"},
    )
    assert done.stdout.endswith("read\n"), done.stderr[-3000:]


# The constructors of vLLM's tiers, told what the pod is told, without an engine around them.
_LEVELS = """
import inspect, json, sys
from vllm.v1.kv_offload.tiering.fs.manager import FileSystemTierManager
from vllm.v1.kv_offload.tiering.obj.config import ObjStoreConfig
from vllm.v1.kv_offload.tiering.obj.manager import ObjectStoreSecondaryTierManager
from vllm.v1.kv_offload.tiering.p2p.manager import P2PSecondaryTierManager
ours = {"CheckedFiles": FileSystemTierManager, "BoundedBucket": ObjectStoreSecondaryTierManager}
classes = {**ours, "p2p": P2PSecondaryTierManager}
for level in json.loads(sys.argv[1]):
    kind = level.pop("type")
    assert ("module_path" in level) is (kind in ours)
    level.pop("module_path", None)
    inspect.signature(classes[kind].__init__).bind(None, None, None, kind, **level)
    if kind == "BoundedBucket":
        ObjStoreConfig(**level["store_config"])
print("taken")
"""


def test_vllm_levels_accept_their_keys():
    levels = []
    for golden in ("every-level", "peers"):
        text = (ROOT / f"tests/unit/backends/native/golden/{golden}.yaml").read_text()
        told = yaml.safe_load(text)["set"]
        levels += told["vllm.connector.kv_connector_extra_config.secondary_tiers"]
    assert [level["type"] for level in levels] == ["CheckedFiles", "BoundedBucket", "p2p"]
    done = subprocess.run(
        [environment("vllm").python, "-c", _LEVELS, json.dumps(levels)],
        capture_output=True,
        text=True,
    )
    assert done.stdout.endswith("taken\n"), done.stderr[-3000:]


def test_damaged_files_are_misses_of_vllms_own_level(tmp_path):
    """vLLM keeps what lies before the damage, asks for the rest no more, and stores it again."""
    name, text = CHECKED_FILES.name, CHECKED_FILES.text
    (tmp_path / f"{name}.py").write_text(text)
    done = subprocess.run(
        [environment("vllm").python, CHECKERS / "checked_files.py", tmp_path / "files", name],
        capture_output=True,
        text=True,
        env={**os.environ, "VLLM_TARGET_DEVICE": "cpu", "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    whole = {"success": True, "kept": 8, "right": True, "counted": 0, "file": True}
    always = {"right": True, "label": "fs", "again": True}
    assert said.pop("nothing") == {**whole, **always, "hits": [True] * 8}
    missed = {**always, "success": False, "kept": 5, "file": False}
    missed["hits"] = [True] * 5 + [False] * 3
    assert said.pop("gone") == {**missed, "counted": 0}
    assert len(said) == 5
    for damage, found in said.items():
        assert found == {**missed, "counted": 1}, damage
    assert done.stderr.count("1 damaged files were removed") == len(said)


@pytest.mark.minutes
def test_bucket_that_hangs_holds_no_lookup(node, tmp_path):
    """vLLM's own level and NIXL's own client: the first lookup waits for the two tries of a wave of
    requests, the next ones for nothing, and nothing is stored meanwhile."""
    (tmp_path / f"{BOUNDED_BUCKET.name}.py").write_text(BOUNDED_BUCKET.text)
    search = f"{tmp_path}:{environment_with('cuda12').packages}"
    done = subprocess.run(
        [
            environment("vllm").python,
            CHECKERS / "bounded_bucket.py",
            "BoundedBucket",
            BOUNDED_BUCKET.name,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "VLLM_TARGET_DEVICE": "cpu", "PYTHONPATH": search},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    (first, waited), (following, seconds) = said.pop("first"), said.pop("next")
    (stored, refused), (again, _) = said.pop("store"), said.pop("again")
    assert (first, following, stored, again) == (0, 0, False, 30)
    assert waited < 20 and seconds < 1 and refused < 1
    assert said == {"stored": True, "hits": 30, "loaded": True, "label": "obj", "left": []}


# An engine's connection to its bucket: vLLM's settings of it and NIXL's own transfer. argv is what
# to do, a block's name, and levels; it says of each whether the block was there.
_OBJECT = """
import ctypes, json, os, sys
from nixl._api import nixl_agent, nixl_agent_config
from vllm.v1.kv_offload.tiering.obj.config import ObjStoreConfig
way, name, *levels = sys.argv[1:]
SIZE = 65536
for number, level in enumerate(map(json.loads, levels)):
    agent = nixl_agent(f"agent-{number}", nixl_agent_config(backends=[]))
    agent.create_backend("OBJ", ObjStoreConfig(**level["store_config"]).to_nixl_params())
    key = f"{level['prefix']}/{name}"
    there = agent.query_memory([(0, 0, 0, key)], "OBJ", "OBJ")[0] is not None
    print("there" if there else "new", flush=True)
    if way == "READ" and not there:
        continue
    page = (ctypes.c_char * SIZE)(*(b"k" * SIZE if way == "WRITE" else b""))
    memory = agent.register_memory([(ctypes.addressof(page), SIZE, 0, "")], "DRAM").trim()
    stored = agent.register_memory([(0, SIZE, 1, key)], "OBJ").trim()
    transfer = agent.initialize_xfer(way, memory, stored, agent.name)
    state = agent.transfer(transfer)
    while state == "PROC":
        state = agent.check_xfer_state(transfer)
    assert state == "DONE", state
    assert bytes(page) == b"k" * SIZE
os._exit(0)  # NIXL may crash at its end
"""


def test_bucket_returns_blocks_to_the_same_identity(node):
    """By the NIXL for CUDA 12: the OBJ plugin of nixl-cu13 1.5.1 does not load."""
    bucket = {
        "bucket": "blocks",
        "endpoint": f"http://{buckets.HOST}",
        "region": "eu-central-1",
        "credentialsSecret": {"name": "kv-bucket"},
    }
    told = native({"name": "shared", "type": "Bucket", "bucket": bucket})
    env = {"PYTHONPATH": str(environment_with("cuda12").packages), "VLLM_TARGET_DEVICE": "cpu"}
    levels = []
    for identity in ("1" * 12, "2" * 12):
        injected = BACKEND.inject(told, replace(ENGINES["vllm"], identity=identity))
        levels += map(
            json.dumps, injected.connector["kv_connector_extra_config"]["secondary_tiers"]
        )
        for variable in injected.env:
            secret = variable["valueFrom"]["secretKeyRef"]
            assert secret["name"] == "kv-bucket"
            env[variable["name"]] = buckets.CREDENTIALS[secret["key"]]
    ours, theirs = levels
    with buckets.start(node, "blocks") as store:
        store.wait_ready(60)

        def engine(way: str, *levels: str) -> list[str]:
            command = ["python3", "-c", _OBJECT, way, "0a1b.bin", *levels]
            done = store.containers["bucket"].execute(command, timeout=60, env=env)
            assert done.returncode == 0, done.stderr[-3000:]
            return [line for line in done.stdout.splitlines() if line in ("there", "new")]

        assert engine("WRITE", ours) == ["new"]
        assert engine("READ", ours, theirs) == ["there", "new"]


# vLLM's own reading and writing: argv is "store" or "load", a folder, how many blocks.
_IO = """
import os, sys
from vllm.v1.kv_offload.tiering.fs import io
way, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
SIZE = 65536
view = memoryview(bytearray(b"".join(bytes([n % 251]) * SIZE for n in range(count))))
paths = [f"{folder}/m_0a1b_r0/{n:03x}/{n % 256:02x}_g0/{n:064x}.bin" for n in range(count)]
if way == "store":
    io.batch_store_block(paths, view, [n * SIZE for n in range(count)], SIZE, False)
    sys.exit()
hits = 0
for n, path in enumerate(paths):
    got = memoryview(bytearray(SIZE))
    try:
        io.batch_load_block([path], got, [0], SIZE, False)
    except OSError:
        assert not os.path.exists(path), path
        continue
    assert bytes(got) == bytes([n % 251]) * SIZE, path
    hits += 1
print("hits", hits)
"""


def io(way: str, folder: Path, count: int) -> str:
    command = [environment("vllm").python, "-c", _IO, way, str(folder), str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.minutes
def test_the_evictor_bounds_what_vllm_wrote(node, engines):
    """What is gone is a miss, what is there is whole, and vLLM writes again where it was."""
    manifests = render(EXAMPLES / "shared.yaml", EXAMPLES / "required")
    template, tier = evictor.pod_template(node, manifests, 100 * 65536, low=90)
    claim = one(manifests, "PersistentVolumeClaim")
    volume = node.volume("claim", claim["metadata"]["name"])
    with Pod(node, template, engines, name="evictor") as pod:
        pod.wait_ready(60)  # before anybody has written anything
        for _ in range(2):
            io("store", volume / tier / "0123456789ab", 200)
            until(lambda: len(blocks(volume)) <= 100)
            found = len(blocks(volume))
            assert found >= 89
            assert io("load", volume / tier / "0123456789ab", 200) == f"hits {found}\n"
        assert metrics(pod, EVICTOR)["kv_evictor_errors_total"] == 0
        ((_, code),) = pod.stop().values()
        assert code == 0


def blocks(folder: Path) -> list[Path]:
    return list(folder.rglob("*.bin"))


def until(holds) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.parametrize("example", ("smallest", "shared"))
def test_examples_equal_the_render_cases(example: str) -> None:
    case = ROOT / "tests/render/cases/tier/native" / example / "xr.yaml"
    assert yaml.safe_load(case.read_text()) == yaml.safe_load(
        (EXAMPLES / f"{example}.yaml").read_text()
    )
