"""Engines of a NIXL tier, read by vLLM 0.33.0's own parser and by NIXL itself."""

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import programs
from function.backends.nixl import nodes
from tests.conformance import consumers
from tests.conformance.envs import environment
from tests.conformance.manifests import ROOT, Manifest
from tests.unit.backends.nixl import nixl
from tests.unit.backends.nixl.golden import ENGINES, GOLDENS

EXAMPLES = ROOT / "example" / "nixl"
OFFLOAD = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 2**30},
}


def wired(example: str, args: list[str], folder: Path, role: str = "prefill") -> Manifest:
    """Return the container of one phase, wired to that example's tier."""
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.33.0", "args": args}
    labels = {"llm-d.ai/role": role}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return consumers.engine(consumers.wired(EXAMPLES / f"{example}.yaml", template, folder))


def asked(vllm, container: Manifest) -> dict[str, Any]:
    parsed = vllm.parse(["vllm", "serve", *container["args"]], {})
    assert parsed.ok, parsed.error
    return parsed.result


@pytest.mark.parametrize(("role", "said"), (("prefill", "kv_producer"), ("decode", "kv_consumer")))
@pytest.mark.parametrize("example", ("smallest", "infiniband"))
def test_vllm_accepts_prefill_and_decode(vllm, tmp_path, example, role, said):
    result = asked(vllm, wired(example, ["Qwen/Qwen3-8B"], tmp_path, role))
    config = result["kv_transfer_config"]
    assert (config["kv_connector"], config["kv_role"]) == ("NixlConnector", said)
    assert config["kv_load_failure_policy"] == "fail"
    lease = 600 if example == "infiniband" else 300
    assert config["kv_connector_extra_config"] == {"backends": ["UCX"], "kv_lease_duration": lease}
    assert [found["name"] for found in result["connectors"]] == ["NixlPullConnector"]


def test_vllm_loads_the_transfer_before_the_users_cache(vllm, tmp_path):
    args = ["Qwen/Qwen3-8B", "--kv-transfer-config", json.dumps(OFFLOAD)]
    names = [
        found["name"] for found in asked(vllm, wired("smallest", args, tmp_path))["connectors"]
    ]
    assert names == ["MultiConnector", "NixlPullConnector", "OffloadingConnector"]


@pytest.mark.parametrize("phase", ("prefill", "decode"))
def test_sglang_accepts_prefill_and_decode(sglang, phase):
    flags = GOLDENS.backend.inject(GOLDENS.of("smallest"), ENGINES[f"sglang-{phase}"]).flags
    words = [word for flag in flags.items() for word in flag if word is not None]
    parsed = sglang.parse(["python3", "-m", "sglang.launch_server", "--model-path", "m", *words])
    assert parsed.ok, parsed.error
    said = parsed.result["resolved"]
    assert said["disaggregation_mode"] == phase
    assert said["disaggregation_transfer_backend"] == "nixl"
    assert said["disaggregation_bootstrap_port"] == 8998


def looked(settings: dict[str, Any], folder: Path) -> subprocess.Popen[str]:
    """The emitted preflight as a process."""
    (made,) = [
        part.manifest
        for part in nodes.parts(nixl(preflight=settings))
        if part.key.startswith("daemonset")
    ]
    (container,) = made["spec"]["template"]["spec"]["containers"]
    (folder / nodes.PROGRAM).write_text(programs.text(f"nixl/{nodes.PROGRAM}"))
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    words = [environment("vllm").python, str(folder / nodes.PROGRAM), *container["args"]]
    return subprocess.Popen(
        words, env={**os.environ, **env, "HOME": str(folder)}, stdout=subprocess.PIPE, text=True
    )


def _await(address: tuple[str, int]) -> None:
    """Wait until a process listens: it says what it found before that."""
    for _ in range(300):
        with socket.socket() as connection:
            if connection.connect_ex(address) == 0:
                return
        time.sleep(0.1)


@pytest.mark.usefixtures("node")  # UCX wants an interface that is not lo
def test_preflight_passes_with_a_working_nixl(tmp_path):
    """On the wheel itself: a transfer goes through, and the pod is ready."""
    process = looked({"plugins": ["POSIX"]}, tmp_path)
    try:
        line = process.stdout.readline()
        assert line.startswith("NIXL works here: nixl-cu1") and "UCX POSIX load; 1 MiB by" in line
        address = ("127.0.0.1", nodes.PORT)
        _await(address)
        for _ in range(40):  # a kubelet asks again and again
            socket.create_connection(address, 5).close()
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("node")  # UCX wants an interface that is not lo
def test_preflight_reports_a_plugin_that_does_not_load(tmp_path):
    """nixl-cu13 1.5.1 lists a plugin that lacks a library."""
    process = looked({"plugins": ["OBJ"]}, tmp_path)
    try:
        line = process.stdout.readline()
        assert line.startswith("NIXL does not work here: plugins that do not load: OBJ (")
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", nodes.PORT), 1):
            pass
    finally:
        process.kill()
        process.wait()


# One phase without an engine: NIXL with the environment of the pod.
_PHASE_PROGRAM = """
import ctypes, json, os, re, sys, time, urllib.request
from pathlib import Path
from nixl._api import nixl_agent, nixl_agent_config

phase, folder, size = sys.argv[1], Path(sys.argv[2]), 1 << 20

def put(name, data):
    (folder / f".{name}").write_bytes(data)
    (folder / f".{name}").rename(folder / name)

def get(name):
    while not (folder / name).exists():
        time.sleep(0.02)
    return (folder / name).read_bytes()

def listening():
    sockets = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            sockets |= set(re.findall(r"socket:\\[(\\d+)", os.readlink(entry)))
        except OSError:
            pass
    words = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = [w[1].split(":") for w in words if w[3] == "0A" and w[9] in sockets]
    return [(address, int(port, 16)) for address, port in found]

block = (ctypes.c_char * size)()
agent = nixl_agent(phase, nixl_agent_config(num_threads=4, capture_telemetry=True))
place = (ctypes.addressof(block), size, 0)
agent.register_memory([(*place, "")], "DRAM")
said = {}
if phase == "prefill":
    ctypes.memmove(block, os.urandom(size), size)
    put("place", json.dumps(place).encode())
    put("metadata", agent.get_agent_metadata())
    get("received")
else:
    name = agent.add_remote_agent(get("metadata"))
    name = name.decode() if isinstance(name, bytes) else name
    theirs = agent.get_xfer_descs([tuple(json.loads(get("place")))], "DRAM")
    ours = agent.get_xfer_descs([place], "DRAM")
    handle = agent.initialize_xfer("READ", ours, theirs, name, b"")
    state = agent.transfer(handle)
    while state not in ("DONE", "ERR"):
        time.sleep(0.01)
        state = agent.check_xfer_state(handle)
    said["state"] = state
    at = f"http://127.0.0.1:{os.environ['NIXL_TELEMETRY_PROMETHEUS_PORT']}/metrics"
    for _ in range(100):
        counters = urllib.request.urlopen(at).read().decode()
        said["counters"] = sorted(set(re.findall(r"^agent_[a-z_]+_total", counters, re.M)))
        if "agent_rx_bytes_total" in said["counters"]:
            break
        time.sleep(0.1)
    put("received", b"1")
said["listening"] = listening()
put(f"{phase}.bytes", bytes(block))
print(json.dumps(said), flush=True)
get("decode.bytes"), get("prefill.bytes")
os._exit(0)  # a UCX backend may crash at exit
"""


def test_nixl_transfers_over_the_ports_of_the_pod(node, tmp_path):
    """Two processes with one pod's environment, as its ranks have it: they share the counters'
    port, keep to UCX's, and are as many listeners as the refusal of a small range counts."""
    container = wired("infiniband", ["Qwen/Qwen3-8B"], tmp_path)
    given = {e["name"]: e["value"] for e in container["env"] if "value" in e}
    del given["UCX_NET_DEVICES"]  # no such device here
    (tmp_path / "counters").mkdir()
    given["NIXL_TELEMETRY_MULTIPROC_DIR"] = str(tmp_path / "counters")
    processes = [
        subprocess.Popen(
            [environment("vllm").python, "-c", _PHASE_PROGRAM, phase, str(tmp_path)],
            env=os.environ | given,
            stdout=subprocess.PIPE,
            text=True,
        )
        for phase in ("prefill", "decode")
    ]
    try:
        said = [
            json.loads(process.communicate(timeout=120)[0].splitlines()[-1])
            for process in processes
        ]
    finally:
        for process in processes:
            process.kill()
    sent, received = ((tmp_path / f"{phase}.bytes").read_bytes() for phase in ("prefill", "decode"))
    assert sent == received and any(sent)
    assert said[1]["state"] == "DONE"
    assert "agent_rx_bytes_total" in said[1]["counters"]
    first, last = map(int, given["UCX_TCP_PORT_RANGE"].split("-"))
    counters = int(given["NIXL_TELEMETRY_PROMETHEUS_PORT"])
    for report in said:
        ports = [(address, port) for address, port in report["listening"] if port != counters]
        assert ports and all(first <= port <= last for _, port in ports)
        for interface in {address for address, _ in ports}:
            assert sum(address == interface for address, _ in ports) == 5
