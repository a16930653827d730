"""What our module for vLLM's connectors makes of the real vLLM's configurations.

    python keyed_connectors.py TEXT FOLDER

TEXT: the module's file. FOLDER: {name: {"args": ..., "layout": ..., "hybrid": ...}} of engines as
cases.json, whose models lie there. Prints {name: [digest, milliseconds]}. No engine is started: the
layout and the groups, which it resolves later, are given.
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.kv_cache_interface import FullAttentionSpec


def main():
    text, folder = Path(sys.argv[1]), Path(sys.argv[2])
    scope = {"__name__": "ours"}
    exec(compile(text.read_text(), str(text), "exec"), scope)
    said = {}
    for name, case in json.loads((folder / "cases.json").read_text()).items():
        case["args"]["model"] = str(folder / case["args"]["model"])
        config = EngineArgs(**case["args"]).create_engine_config()
        config.cache_config.kv_cache_layout = case.get("layout", "LBHNC")
        spec = FullAttentionSpec(block_size=64, num_kv_heads=2, head_size=64, dtype=torch.bfloat16)
        groups = SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec)])
        begun = time.monotonic()
        found, problem = scope["told"](config, groups)
        assert not problem, problem
        digest = scope["digest_of"](found, begun)
        said[name] = [digest, round(1000 * (time.monotonic() - begun), 1)]
    print(json.dumps(said))


main()
