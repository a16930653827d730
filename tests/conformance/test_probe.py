"""The probe in real environments of both engines, by their own Python, without a GPU."""

import json
import subprocess
from pathlib import Path

import pytest

from programs import probe
from tests.conformance.envs import environment

EXPECTED = {
    "vllm": {
        "modelplane.ai/kv-offload-engine": "vLLM",
        "modelplane.ai/kv-offload-engine-version": "0.33.0",
        "modelplane.ai/kv-offload-packages": (
            "lmcache=0.5.6,mooncake=0.3.13.post1,nixl=1.5.1,torch=2.13.0,cuda=13.0,python=3.11"
        ),
    },
    "sglang": {
        "modelplane.ai/kv-offload-engine": "SGLang",
        "modelplane.ai/kv-offload-engine-version": "0.5.23",
        "modelplane.ai/kv-offload-packages": (
            "lmcache=none,mooncake=none,nixl=none,torch=2.13.0,cuda=13.0,python=3.11"
        ),
    },
}


def _probe(name: str, *arguments: str) -> dict:
    python = environment(name).python
    done = subprocess.run(
        [python, "-", "--json", *arguments],
        input=Path(probe.__file__).read_text(),
        text=True,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", EXPECTED)
def test_packages_of_an_environment(name):
    assert _probe(name, "--quick")["annotations"] == EXPECTED[name]


def test_connectors_equal_those_registered_by_vllm():
    read = _probe("vllm", "--quick")
    code = (
        "import json; from vllm.distributed.kv_transfer.kv_connector.factory import "
        "KVConnectorFactory as f; print('REGISTERED', json.dumps(sorted(f._registry)))"
    )
    done = subprocess.run(
        [environment("vllm").python, "-c", code], text=True, capture_output=True, check=True
    )
    line = next(x for x in done.stdout.splitlines() if x.startswith("REGISTERED"))
    assert sorted(read["connectors"]) == json.loads(line.partition(" ")[2])
    assert read["blockSize"] == "16"


def test_lmcache_loads_only_with_the_torch_of_its_build():
    entry = _probe("vllm")["packages"]["lmcache"]
    assert entry["problem"] == ""
    assert entry["native"] == {"cuda_ops": ""}
    assert entry["isolatedIPC"] is True
