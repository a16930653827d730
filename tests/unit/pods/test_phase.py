"""Which half an engine is: by flags, its place, or a label where a prefill half is there."""

import json

from tests.corpus import judged

NIXL = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'


def deployment(role, own=NIXL):
    args = ["org/model", *(["--kv-transfer-config", own] if own else [])]
    container = {"name": "engine", "image": judged.NEWEST["vLLM"][1], "args": args}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    labels = {"app": "chat", **({"llm-d.ai/role": role} if role else {})}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": role or "both"},
        "spec": {"selector": {"matchLabels": {"app": "chat"}}, "template": template},
    }


def store_role(workload, siblings=()):
    """The role of the tier's connector, and the condition's message."""
    found = judged.wired(workload, judged.planned("Mooncake"), [workload, *siblings])
    (container,) = found.manifest["spec"]["template"]["spec"]["containers"]
    config = json.loads(container["args"][container["args"].index("--kv-transfer-config") + 1])
    connectors = config["kv_connector_extra_config"].get("connectors", [config])
    (store,) = (c for c in connectors if c["kv_connector"] == "MooncakeStoreConnector")
    return store["kv_role"], found.summary


def test_a_decode_label_alone_makes_no_decode_half():
    """It computes its own prompts: as a half it would write nothing, and the pool stay empty."""
    role, message = store_role(deployment("decode"))
    assert role == "kv_both"
    assert "the label llm-d.ai/role is decode, and no prefill pods are composed with it" in message


def test_a_decode_label_counts_beside_prefill_pods():
    role, message = store_role(deployment("decode"), [deployment("prefill")])
    assert role == "kv_consumer"
    assert "decode by the label llm-d.ai/role" in message


def test_a_second_decode_workload_is_no_partner():
    assert store_role(deployment("decode"), [deployment("decode"), deployment("")])[0] == "kv_both"


def test_a_prefill_label_is_named():
    role, message = store_role(deployment("prefill"))
    assert role == "kv_both"
    assert "prefill by the label llm-d.ai/role" in message


def test_without_a_transfer_of_its_own_no_label_counts():
    role, message = store_role(deployment("decode", own=""), [deployment("prefill")])
    assert role == "kv_both"
    assert "llm-d.ai/role" not in message
