"""A tier's events: what is emitted goes through both engines' parsers, and through their own
publishers to a subscriber that dials as llm-d's router does."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.envs import environment
from tests.unit.pods.test_events import HICACHE, NATIVE, SGLANG, container, planned, pod, wired

CHECKERS = str(Path(__file__).with_name("checkers"))
FLAG, ADDRESS = "--kv-events-config", "10.1.2.3"
STARTS = {
    "vllm": ("vllm/vllm-openai:v0.33.0", ("--model=m", "--data-parallel-size=2"), NATIVE),
    "sglang": (
        SGLANG,
        ("python3", "-m", "sglang.launch_server", "--model-path=m", "--dp-size=2"),
        HICACHE,
    ),
}


def asked(engine: str, port: int = 5557, replay: int = 5657) -> list[str]:
    """The engine's arguments in a pod, as Kubernetes expands them."""
    image, args, backend = STARTS[engine]
    plan = planned(backend, port=port, replayPort=replay)
    found: list[str] = container(wired(plan, pod(*args, image=image)))["args"]
    return [word.replace("$(KV_OFFLOAD_POD_IP)", ADDRESS) for word in found]


def test_vllm_accepts_the_events_flags(vllm):
    parsed = vllm.parse(["vllm", "serve", *asked("vllm")], {})
    assert parsed.ok, parsed.error
    assert parsed.result["kv_events_config"] == {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": "tcp://*:5557",
        "replay_endpoint": "tcp://*:5657",
        "topic": f"kv@{ADDRESS}:8000@m",
        "buffer_steps": 10000,
        "hwm": 100000,
        "max_queue_size": 100000,
    }
    extra = parsed.result["kv_transfer_config"]["kv_connector_extra_config"]
    assert extra["self_describing_kv_events"] is True


def test_sglang_accepts_the_events_flags(sglang):
    parsed = sglang.parse(asked("sglang"))
    assert parsed.ok, parsed.error
    assert json.loads(parsed.result["resolved"]["kv_events_config"])["replay_endpoint"]


# The engine's own publisher of its second rank, a subscriber that came first, one that missed all.
_PUBLISH = """
import json, os, sys, time
sys.path.insert(0, sys.argv[3])
import zmq, msgspec
config, rank = sys.argv[2], 1
if sys.argv[1] == "vllm":
    from vllm.config.kv_events import KVEventsConfig
    from vllm.distributed import kv_events as own
    publisher = own.EventPublisherFactory.create(KVEventsConfig(**json.loads(config)), rank)
else:
    import stubs
    stubs.install("triton", "torchvision", "IPython", "gguf")
    from sglang.srt.disaggregation import kv_events as own
    publisher = own.EventPublisherFactory.create(config, rank)
live, replay = (json.loads(config)[name] for name in ("endpoint", "replay_endpoint"))
port = lambda end: int(end[end.rindex(":") + 1 :]) + rank
context = zmq.Context.instance()
heard = context.socket(zmq.SUB)
heard.connect(f"tcp://127.0.0.1:{port(live)}")
heard.setsockopt_string(zmq.SUBSCRIBE, "kv@")
fields = dict(block_hashes=[7], parent_block_hash=None, token_ids=[1, 2], block_size=2,
              lora_id=None, medium="GPU")
names = set(own.BlockStored.__struct_fields__)
fields |= {"lora_name": None} if "lora_name" in names else {}
event = own.BlockStored(**{k: v for k, v in fields.items() if k in names})
said = {}
for _ in range(200):
    publisher.publish(own.KVEventBatch(ts=1.0, events=[event]))
    if heard.poll(50):
        topic, _, payload = heard.recv_multipart()
        batch = msgspec.msgpack.decode(payload)
        said["topic"], said["event"] = topic.decode(), batch[1][0]
        break
missed = context.socket(zmq.DEALER)
missed.connect(f"tcp://127.0.0.1:{port(replay)}")
missed.send_multipart([b"", (0).to_bytes(8, "big")])
said["replayed"] = bool(missed.poll(5000))
print(json.dumps(said, default=str), flush=True)
os._exit(0)
"""


def free_ports() -> tuple[int, int]:
    """Two ports whose next one is free too, for the second rank."""
    found: list[int] = []
    while len(found) < 2:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            found += [port] if 1024 <= port <= 65000 else []
    return found[0], found[1]


@pytest.mark.parametrize("engine", STARTS)
def test_router_receives_the_events(engine):
    args = asked(engine, *free_ports())
    config = args[args.index(FLAG) + 1]
    ran = subprocess.run(
        [environment(engine).python, "-c", _PUBLISH, engine, config, CHECKERS],
        env={**os.environ, "VLLM_TARGET_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    said: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    serving = {"vllm": 8000, "sglang": 30000}[engine]
    assert said["topic"] == f"kv@{ADDRESS}:{serving}@m"
    event = said["event"]
    values = list(event.values()) if isinstance(event, dict) else event
    assert "BlockStored" in values and [1, 2] in values
    assert said["replayed"], "a router that missed them gets them again"
