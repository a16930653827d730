"""The digest that our class puts into vLLM's keys, of the real vLLM's configurations."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import programs
from tests.conformance.clients import CHECKERS
from tests.conformance.envs import environment
from tests.serve.models import LONG_ROPE, write_model

SHORT = {"max_model_len": 4096}
CASES: dict[str, dict[str, Any]] = {
    "usual": {},
    "again": {},
    "a copy on another node": {"model": "copy"},
    "a shorter request": SHORT,
    "its dtype, resolved": {"dtype": "bfloat16"},
    "longrope": {"model": "longrope"},
    "other rope factors": {"model": "longrope", **SHORT},
    "another dtype": {"dtype": "float16"},
    "another cache dtype": {"kv_cache_dtype": "fp8"},
    "other weights": {"model": "other"},
    "another tensor": {"model": "tensor"},
    "an override": {"hf_overrides": {"rope_theta": 5e5}},
    "another block": {"block_size": 128},
    "another layout": {},
}
SAME = ("usual", "again", "a copy on another node", "a shorter request", "its dtype, resolved")


def change_a_tensor(file: Path) -> None:
    """Another tensor of the model, which is neither the first nor the last of its file."""
    data = bytearray(file.read_bytes())
    header = json.loads(data[8 : 8 + (length := int.from_bytes(data[:8], "little"))])
    begin, end = header["model.layers.0.self_attn.v_proj.weight"]["data_offsets"]
    data[8 + length + begin : 8 + length + end] = bytes(end - begin)
    file.write_bytes(data)


def test_only_what_makes_a_block_changes_the_digest(tmp_path: Path) -> None:
    write_model(tmp_path / "usual", 1)
    write_model(tmp_path / "longrope", 1, LONG_ROPE)
    write_model(tmp_path / "other", 2)
    for name in ("copy", "tensor"):
        shutil.copytree(tmp_path / "usual", tmp_path / name)
    change_a_tensor(tmp_path / "tensor" / "model.safetensors")
    cases = {
        name: {"args": {"model": "usual", "max_model_len": 8192, **args}}
        for name, args in CASES.items()
    }
    cases["another layout"]["layout"] = "LBNHC"
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    text = tmp_path / "module.py"
    text.write_text(programs.module("vllm/keyed_connectors.py"))
    done = subprocess.run(
        [environment("vllm").python, CHECKERS / "keyed_connectors.py", text, tmp_path],
        capture_output=True,
        text=True,
        env=os.environ | {"VLLM_TARGET_DEVICE": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = {name: row[0] for name, row in json.loads(done.stdout.splitlines()[-1]).items()}
    assert {said[name] for name in SAME} == {said["usual"]}
    assert len(set(said.values())) == 1 + len(CASES) - len(SAME), said
