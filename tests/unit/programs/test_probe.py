"""The probe on environments made of files: what it reads, what it prints, what it needs."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from function.contract.stock_images import declared
from programs import probe
from tests.unit.cli.test_commands import run
from tests.unit.contract.model_config import of_config

SCRIPT = Path(probe.__file__)
FACTORY = """\
class KVConnectorFactory: ...
KVConnectorFactory.register_connector("ExampleConnector", "vllm.a", "ExampleConnector")
KVConnectorFactory.register_connector(
    "LMCacheMPConnector", "vllm.b", "LMCacheMPConnector"
)
"""
VLLM = {
    "vllm-0.33.0+cu129.dist-info/METADATA": "Name: vllm\nVersion: 0.33.0+cu129\n",
    "vllm/distributed/kv_transfer/kv_connector/factory.py": FACTORY,
    "vllm/config/cache.py": "class CacheConfig:\n    DEFAULT_BLOCK_SIZE: ClassVar[int] = 16\n",
    "lmcache-0.5.6.dist-info/METADATA": "Name: lmcache\nVersion: 0.5.6\n",
    "lmcache/__init__.py": "",
    "lmcache/integration/vllm/lmcache_mp_connector.py": "isolated_ipc = True",
    "mooncake_transfer_engine_cuda13-0.3.13.post1.dist-info/METADATA": (
        "Name: mooncake-transfer-engine-cuda13\nVersion: 0.3.13.post1\n"
    ),
    "torch-2.13.0+cu129.dist-info/METADATA": "Name: torch\nVersion: 2.13.0+cu129\n",
    "torch/version.py": "__version__ = '2.13.0+cu129'\ncuda: Optional[str] = '12.9'\nhip = None\n",
}
SGLANG = {
    "sglang-0.5.23.dist-info/METADATA": "Name: sglang\nVersion: 0.5.23\n",
    "sglang/srt/server_args.py": "enable_hierarchical_cache: bool\nenable_lmcache: bool\n",
    "torch/version.py": "cuda = None\nhip: Optional[str] = '7.2.5'\n",
}
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
VLLM_REPORT = """\
engine: vLLM 0.33.0, by PYTHON
block size: 16 tokens by default; a hybrid model sets its own (the log's line "Setting attention \
block size to N tokens")
packages:
  lmcache   0.5.6, knows isolated IPC
  mooncake  0.3.13.post1 (mooncake-transfer-engine-cuda13)
  nixl      not there
  torch     2.13.0+cu129, for CUDA 12.9
connectors: ExampleConnector, LMCacheMPConnector

Declare it on the pod template:
  annotations:
    modelplane.ai/kv-offload-engine: "vLLM"
    modelplane.ai/kv-offload-engine-version: "0.33.0"
    modelplane.ai/kv-offload-packages: \
"lmcache=0.5.6,mooncake=0.3.13.post1,nixl=none,torch=2.13.0,cuda=12.9,python=PY3"
"""
SGLANG_REPORT = """\
engine: SGLang 0.5.23, by PYTHON
packages:
  lmcache   not there
  mooncake  not there
  nixl      not there
  torch     not there
offload flags: --enable-hierarchical-cache, --enable-lmcache

Declare it on the pod template:
  annotations:
    modelplane.ai/kv-offload-engine: "SGLang"
    modelplane.ai/kv-offload-engine-version: "0.5.23"
    modelplane.ai/kv-offload-packages: "lmcache=none,mooncake=none,nixl=none,torch=none,python=PY3"
"""


@pytest.fixture
def image(tmp_path: Path):
    """Makes a folder of packages, and runs the probe as an image would, with it alone."""

    def make(files: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        for name, text in files.items():
            path = tmp_path / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("SITE", str(tmp_path / "site")))
        (tmp_path / "bin").mkdir()
        environment = {"PATH": str(tmp_path / "bin"), "PYTHONPATH": str(tmp_path / "site")}
        return subprocess.run(
            # -S: without the packages of the environment that the tests run in.
            [sys.executable, "-S", "-", *arguments],
            input=SCRIPT.read_text(),
            env=environment,
            text=True,
            capture_output=True,
        )

    return make


@pytest.mark.parametrize(
    ("files", "expected"), [(VLLM, VLLM_REPORT), (SGLANG, SGLANG_REPORT)], ids=["vllm", "sglang"]
)
def test_text_output(image, files, expected):
    done = image(files, "--quick")
    assert done.stderr == ""
    assert done.stdout.partition("\n")[2] == expected.replace("PYTHON", sys.executable).replace(
        "PY3", VERSION
    )
    assert done.returncode == 0


def test_json_output(image):
    done = image(VLLM, "--quick", "--json")
    found = json.loads(done.stdout)
    assert found == {
        "python": sys.executable,
        "pythonVersion": VERSION,
        "engine": "vLLM",
        "version": "0.33.0",
        "packages": {
            "lmcache": {"distribution": "lmcache", "version": "0.5.6", "isolatedIPC": True},
            "mooncake": {
                "distribution": "mooncake-transfer-engine-cuda13",
                "version": "0.3.13.post1",
            },
            "nixl": None,
            "torch": {"distribution": "torch", "version": "2.13.0+cu129"},
        },
        "cuda": "12.9",
        "hip": None,
        "blockSize": "16",
        "connectors": ["ExampleConnector", "LMCacheMPConnector"],
        "offers": [],
        "annotations": {
            "modelplane.ai/kv-offload-engine": "vLLM",
            "modelplane.ai/kv-offload-engine-version": "0.33.0",
            "modelplane.ai/kv-offload-packages": (
                "lmcache=0.5.6,mooncake=0.3.13.post1,nixl=none,torch=2.13.0,cuda=12.9,"
                f"python={VERSION}"
            ),
        },
        "model": None,
    }
    written = found["annotations"]["modelplane.ai/kv-offload-packages"]
    assert declared.written(declared.parse(written, "annotation")) == written


def test_failed_import_is_reported(image):
    broken = {
        **VLLM,
        "torch/__init__.py": "",
        "lmcache/__init__.py": "",
        "lmcache/cuda_ops.py": "raise ImportError('libcudart.so.13: cannot open')",
        # The interpreter passes over this one, and the module above stands in for it.
        "lmcache/cuda_ops.other.so": "",
        "mooncake/__init__.py": "",
        "mooncake/store.py": "import time\ntime.sleep(60)",
    }
    lines = image(broken, "--seconds", "2").stdout.splitlines()
    assert lines[3:6] == [
        "packages:",
        "  lmcache   0.5.6, imports, cuda_ops does not load: ImportError: libcudart.so.13: cannot "
        "open, knows isolated IPC",
        "  mooncake  0.3.13.post1 (mooncake-transfer-engine-cuda13), does not import: took longer "
        "than 2 s",
    ]


def test_editable_engine_is_read_from_its_source(image):
    source = {
        "vllm-0.33.0.dist-info/METADATA": VLLM["vllm-0.33.0+cu129.dist-info/METADATA"],
        "vllm-0.33.0.dist-info/direct_url.json": '{"url": "file://SITE/../src"}',
        "../src/vllm/distributed/kv_transfer/kv_connector/factory.py": FACTORY,
    }
    found = json.loads(image(source, "--quick", "--json").stdout)
    assert found["connectors"] == ["ExampleConnector", "LMCacheMPConnector"]


def test_engine_of_another_environment_is_found_by_its_command(tmp_path):
    """An image's `python3` need not be the engine's."""
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    (other / "bin/python3").symlink_to(sys.executable)
    for name, text in SGLANG.items():
        path = other / "lib/python3.12/site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    program = tmp_path / "bin/sglang"
    program.parent.mkdir()
    program.write_text(f"#!{other}/bin/python3\nimport sglang\n")
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-S", "-", "--quick"],
        input=SCRIPT.read_text(),
        env={"PATH": str(tmp_path / "bin")},
        text=True,
        capture_output=True,
    )
    assert done.stdout.splitlines()[1] == f"engine: SGLang 0.5.23, by {other}/bin/python3"


def test_missing_engine_lists_the_searched_places(image):
    done = image({"torch/version.py": "cuda = '13.0'\n"}, "--quick")
    assert done.stdout.startswith(f"no vLLM and no SGLang in {sys.executable}")
    assert done.returncode == 1


MODELS = {
    "dense": ({"architectures": ["LlamaForCausalLM"]}, set()),
    "hybrid": ({"layer_types": ["linear_attention", "full_attention"]}, {"hybrid"}),
    "mamba": ({"architectures": ["JambaForCausalLM"], "mamba_d_state": 16}, {"hybrid"}),
    "mla": ({"architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512}, {"mla"}),
    "sliding": ({"layer_types": ["sliding_attention", "full_attention"]}, {"sliding"}),
    "multimodal": (
        {"text_config": {"layer_types": ["sliding_attention"]}, "vision_config": {}},
        {"sliding", "multimodal"},
    ),
}


@pytest.mark.parametrize(("config", "expected"), MODELS.values(), ids=MODELS)
def test_model_configuration_gives_the_family(tmp_path, config, expected):
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = probe.model_hints(str(tmp_path))
    assert model is not None
    assert set(model["families"]) == expected
    # What it sees is never more than what the function's own table sees.
    assert expected <= of_config(config)


def test_plain_configuration_gives_a_commented_suggestion(image, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(MODELS["dense"][0]))
    lines = image(SGLANG, "--quick", "--model", str(tmp_path)).stdout.splitlines()
    assert "model: LlamaForCausalLM" in lines
    assert lines[-1] == (
        "    # config.json shows no special layers. modelplane.ai/kv-offload-model-family: dense"
    )


def test_script_needs_only_an_old_python():
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 9))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= sys.stdlib_module_names


def test_command_prints_the_script():
    result = run("probe", "--print")
    assert result.output == SCRIPT.read_text()


def test_command_runs_the_script_in_an_interpreter(tmp_path):
    """Through a real interpreter, whose answer and exit code are the command's."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\necho "$@"\nexec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from kv_offload.cli import main; main()",
            *("probe", "--python", str(script), "--quick"),
        ],
        env={**os.environ, "PATH": str(tmp_path)},
        text=True,
        capture_output=True,
    )
    assert done.stdout.splitlines()[0] == "- --quick"
    assert "no vLLM and no SGLang" in done.stdout
    assert done.returncode == 1


def test_missing_interpreter_is_reported():
    result = run("probe", "--python", "/nonexistent/python")
    assert "/nonexistent/python: No such file or directory" in result.output
    assert result.exit_code == 2
