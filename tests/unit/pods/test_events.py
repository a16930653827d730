"""KV events in an engine pod: the flags written, the flags kept, and the refusals."""

import json
from typing import Any

import pytest

from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.backends.registry import BACKENDS
from function.composers import tier_plan
from function.contract import events
from function.contract.injection import Injection
from function.edge.structs import encode
from function.engines.events import flags
from function.pods import replay, wire
from function.pods.offload_request import find
from function.problems import Refused
from function.reasons import Reason

Json = dict[str, Any]

VLLM, SGLANG = "vllm/vllm-openai:v0.33.0", "lmsysorg/sglang:v0.5.23"
NATIVE: Json = {"backend": "Native", "native": {"cpu": {"sizeGiB": 8}}}
HICACHE: Json = {"backend": "HiCache", "hicache": {"host": {"sizeGiB": 8}}}
NIXL: Json = {"backend": "NIXL", "nixl": {}}
FLAG = "--kv-events-config"


def planned(backend: Json, **asked: Any) -> tier_plan.TierPlan:
    spec = {"inferenceClusterRef": {"name": "c"}, "events": asked, **backend}
    found = tier_plan.plan("platform", "chat", spec, encode(spec), BACKENDS)
    assert isinstance(found, tier_plan.TierPlan), found
    return found


def pod(*args: str, image: str = VLLM, env: list[Json] | None = None, **more: Any) -> Json:
    container = {"name": "engine", "image": image, "args": list(args), "env": env or [], **more}
    template = {"metadata": {}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "qwen", "namespace": "default"},
        "spec": {"template": template},
    }


def wired(plan: tier_plan.TierPlan, workload: Json) -> wire.Wired:
    ref = KVOffloadTierRef(name="chat", namespace="platform")
    request = find("engine", workload, ref, Input(), "default")
    assert request is not None
    return wire.wire(request, plan.tier, plan.backend, "files")


def container(found: wire.Wired) -> Json:
    (engine,) = found.manifest["spec"]["template"]["spec"]["containers"]
    return engine


def value(args: list[str], flag: str) -> Json:
    held: Json = json.loads(args[args.index(flag) + 1])
    return held


def test_vllm_publishes_events_on_the_pod_address() -> None:
    out = container(wired(planned(NATIVE), pod("--model=Qwen/Qwen3-8B", "--port=8200")))
    assert value(out["args"], FLAG) == {
        "enable_kv_cache_events": True,
        "endpoint": "tcp://*:5557",
        "publisher": "zmq",
        "topic": "kv@$(KV_OFFLOAD_POD_IP):8200@Qwen/Qwen3-8B",
    }
    assert out["env"][0] == {
        "name": "KV_OFFLOAD_POD_IP",
        "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
    }
    assert out["ports"] == [{"name": "kv-events-0", "containerPort": 5557}]
    extra = value(out["args"], "--kv-transfer-config")["kv_connector_extra_config"]
    assert extra["self_describing_kv_events"] is True


def test_sglang_publishes_events_on_the_pod_address() -> None:
    args = ("python3", "-m", "sglang.launch_server", "--model-path=m", "--served-model-name=chat")
    plan = planned(HICACHE, port=6000, replayPort=6100)
    out = container(wired(plan, pod(*args, "--dp-size=2", image=SGLANG)))
    assert value(out["args"], FLAG) == {
        "endpoint": "tcp://*:6000",
        "publisher": "zmq",
        "replay_endpoint": "tcp://*:6100",
        "topic": "kv@$(KV_OFFLOAD_POD_IP):30000@chat",
    }
    assert [(p["name"], p["containerPort"]) for p in out["ports"]] == [
        ("kv-events-0", 6000),
        ("kv-events-1", 6001),
        ("kv-replay-0", 6100),
        ("kv-replay-1", 6101),
    ]


@pytest.mark.parametrize("backend", [NATIVE, NIXL], ids=["Native", "NIXL"])
def test_wiring_a_wired_pod_changes_nothing(backend: Json) -> None:
    plan = planned(backend, blockTokens=64, hashSeed=42)
    once = wired(plan, pod("--model=m"))
    assert wired(plan, once.manifest).manifest == once.manifest


def test_a_record_is_replayed_with_its_events() -> None:
    plan, bare = planned(NATIVE, replayPort=5657, blockTokens=64, hashSeed=42), pod("--model=m")
    once = wired(plan, bare)
    (kept,) = once.record.templates.values()
    assert plan.backend.allows.problem(kept.injection, flags()) == ""
    ref = KVOffloadTierRef(name="chat", namespace="platform")
    request = find("engine", bare, ref, Input(), "default")
    assert request is not None
    assert replay.replay(request, once.record, Input()) == once.manifest


@pytest.mark.parametrize(
    ("own", "said"),
    (
        ({"enable_kv_cache_events": True, "endpoint": "tcp://*:5600"}, "at port 5600"),
        ({"enable_kv_cache_events": True, "endpoint": "tcp://router:5557"}, "cannot be seen"),
        ({"enable_kv_cache_events": True, "endpoint": "tcp://*:5557"}, ""),
    ),
)
def test_events_flag_of_the_pod_is_kept(own: Json, said: str) -> None:
    found = wired(planned(NATIVE), pod("--model=m", FLAG, json.dumps(own)))
    out = container(found)
    assert out["args"].count(FLAG) == 1 and value(out["args"], FLAG) == own
    assert "ports" not in out and not any(e["name"] == events.POD_IP for e in out.get("env", ()))
    assert (f"{FLAG} stays" in found.summary) is bool(said) and said in found.summary


def test_hash_seed_and_block_size_come_from_the_tier() -> None:
    plan = planned(NATIVE, blockTokens=64, hashSeed=42)
    out = container(wired(plan, pod("--model=m")))
    assert {"name": "PYTHONHASHSEED", "value": "42"} in out["env"]
    assert out["args"][out["args"].index("--block-size") + 1] == "64"
    equal = wired(plan, pod("--model=m", "--block-size=64"))
    assert container(equal)["args"].count("--block-size=64") == 1
    assert "--block-size" not in container(equal)["args"]
    plain = wired(plan, pod("--model=m"))
    assert plain.engines[0].identity == equal.engines[0].identity


# What is asked, the pod, and what is said of it.
REFUSED: dict[str, tuple[Json, Json, Json, Reason, str]] = {
    "another block": (
        NATIVE, {"blockTokens": 64}, pod("--model=m", "--block-size=16"),
        Reason.CONNECTOR_CONFLICT, "--block-size 16",
    ),
    "another seed": (
        NATIVE, {"hashSeed": 42}, pod("--model=m", env=[{"name": "PYTHONHASHSEED", "value": "7"}]),
        Reason.CONNECTOR_CONFLICT, "PYTHONHASHSEED is 7 in the pod",
    ),
    "the backend's page": (
        HICACHE, {"blockTokens": 16},
        pod("python3", "-m", "sglang.launch_server", "--model-path=m", image=SGLANG),
        Reason.CONNECTOR_CONFLICT, "the tier's backend sets --page-size 64",
    ),
    "the serving port": (
        NATIVE, {"port": 8000}, pod("--model=m"),
        Reason.POD_CONFLICT, "port 8000 is the engine's own (--port)",
    ),
    "a rank at the replay port": (
        NATIVE, {"port": 5557, "replayPort": 5560}, pod("--model=m", "--data-parallel-size=8"),
        Reason.POD_CONFLICT, "port 5560 is an event port (spec.events.port)",
    ),
    "NIXL's side channel": (
        NIXL, {"port": 5599}, pod("--model=m", "--data-parallel-size=2"),
        Reason.POD_CONFLICT, "Port 5600",
    ),
    "UCX's range": (
        NIXL, {"port": 20005}, pod("--model=m"), Reason.POD_CONFLICT, "Port 20005",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_event_settings_are_refused(name: str) -> None:
    backend, asked, workload, reason, said = REFUSED[name]
    with pytest.raises(Refused) as refused:
        wired(planned(backend, **asked), workload)
    assert refused.value.reason == reason and said in str(refused.value)


def test_event_port_of_another_container_is_refused() -> None:
    workload = pod("--model=m")
    sidecar = {"name": "proxy", "image": "p", "ports": [{"containerPort": 5557}]}
    workload["spec"]["template"]["spec"]["containers"].append(sidecar)
    with pytest.raises(Refused) as refused:
        wired(planned(NATIVE), workload)
    assert refused.value.reason == Reason.POD_CONFLICT and "5557" in str(refused.value)


def test_script_gets_the_flag_with_a_kubernetes_variable() -> None:
    workload = pod(command=["sh", "-c", "exec vllm serve m --port 8100"])
    workload["spec"]["template"]["spec"]["containers"][0].pop("args")
    (_, _, script) = container(wired(planned(NATIVE), workload))["command"]
    assert f"{FLAG} '" in script and '"kv@$(KV_OFFLOAD_POD_IP):8100@m"' in script


def test_opted_in_script_gets_the_flag_by_variable() -> None:
    workload = pod(command=["sh", "-c", "exec vllm serve m $KV_OFFLOAD_ARGS"])
    workload["spec"]["template"]["spec"]["containers"][0].pop("args")
    env = container(wired(planned(NATIVE), workload))["env"]
    names = [variable["name"] for variable in env]
    assert names.index(events.POD_IP) < names.index("KV_OFFLOAD_ARGS")
    assert "$(KV_OFFLOAD_POD_IP)" in env[names.index("KV_OFFLOAD_ARGS")]["value"]


@pytest.mark.parametrize(
    ("made", "said"),
    (
        (
            {"kv_events": {"endpoint": "tcp://thief:1", "publisher": "zmq"}},
            "events at tcp://thief:1",
        ),
        ({"kv_events": {"endpoint": "tcp://*:1@thief:2"}}, "events at tcp://*:1@thief:2"),
        ({"kv_events": {"replay_endpoint": "tcp://thief:1"}}, "events at tcp://thief:1"),
        ({"kv_events": {"module": "x"}}, "events with module"),
        ({"flags": {FLAG: '{"endpoint":"tcp://thief:1"}'}}, "events at tcp://thief:1"),
        ({"flags": {FLAG: "{"}}, f"{FLAG} {{"),
        ({"flags": {FLAG: "[]"}}, "events that are no object"),
        ({"kv_events": {"endpoint": "tcp://*:5557", "publisher": "zmq", "topic": "kv@"}}, ""),
    ),
)
def test_forged_record_cannot_redirect_events(made: Json, said: str) -> None:
    assert planned(NATIVE).backend.allows.problem(Injection(**made)) == said
