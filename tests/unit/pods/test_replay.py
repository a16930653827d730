"""Replay of a record onto a command that can no longer take its connector."""

from typing import Any

import pytest

from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.contract.injection import Injection
from function.pods import record, replay
from function.pods.offload_request import find
from function.pods.record import Record, TemplateRecord
from function.problems import Refused

CONNECTOR = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}


def preset(**main: Any) -> dict[str, Any]:
    """KServe's preset starts the engine, and reads VLLM_ADDITIONAL_ARGS where that is set."""
    container = {"name": "main", "image": "vllm/vllm-openai:v0.33.0", **main}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "llama"},
        "spec": {"model": {"uri": "hf://org/m"}, "template": {"containers": [container]}},
    }


def replayed(manifest: dict[str, Any]) -> dict[str, Any]:
    injection = Injection("Native", connector=CONNECTOR)
    kept = Record(
        record.WIRED,
        "platform/native",
        engines={"": {"engine": "vLLM"}},
        templates={"spec.template": TemplateRecord(injection, "main")},
    )
    asked = find("e", manifest, KVOffloadTierRef(name="native"), Input(), "")
    assert asked is not None
    return replay.replay(asked, kept, Input())


def test_a_connector_needs_a_command_that_takes_it() -> None:
    env = [{"name": "VLLM_ADDITIONAL_ARGS", "value": ""}]
    wired = replayed(preset(env=env))["spec"]["template"]["containers"][0]
    assert "OffloadingConnector" in wired["env"][0]["value"]
    with pytest.raises(Refused, match="no command here starts an engine any more"):
        replayed(preset(args=["--max-model-len", "8192"]))
