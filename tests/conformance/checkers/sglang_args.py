"""What SGLang makes of a command line: its own parser, resolution and checks, without a GPU.

Request `{"argv": [...], "env": {...}}`, argv as in the pod (`python3 -m sglang.launch_server ...`,
`sglang serve ...`). The model is replaced by a small Llama configuration, since resolution reads
config.json and there is no hub here, and `--device cuda` is said where the pod leaves it to the
machine. The result: `resolved`, every field as the scheduler would read it, and `given`, the
fields before resolution.

Request `{"kind": "options"}`: `options`, the flags of its parser (options.py).
"""

import argparse
import json
import os
import tempfile

import options
import service
import stubs

stubs.install("triton", "torchvision", "IPython", "gguf")

import msgspec  # noqa: E402
from sglang.srt.arg_groups.validation_hook import check_server_args  # noqa: E402
from sglang.srt.server_args import ServerArgs, prepare_server_args  # noqa: E402

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16",
}


def _arguments(argv: list[str]) -> list[str]:
    program = os.path.basename(argv[0])
    if program.startswith("python") and argv[1:3] == ["-m", "sglang.launch_server"]:
        return argv[3:]
    if program == "sglang" and argv[1:2] == ["serve"]:
        rest = argv[2:]
        # `sglang serve MODEL ...` is `--model-path MODEL`, as sglang.cli.serve does it.
        return ["--model-path", *rest] if rest and not rest[0].startswith("-") else rest
    raise ValueError(f"not a command that starts SGLang's server: {argv[:3]}")


def answer(request: dict) -> dict:
    if request.get("kind") == "options":
        parser = argparse.ArgumentParser()
        ServerArgs.add_cli_args(parser)
        return {"options": options.rows(parser)}
    given = prepare_server_args(_arguments(request["argv"]))
    raw = service.plain(msgspec.structs.asdict(given), depth=3)
    with tempfile.TemporaryDirectory() as model:
        with open(os.path.join(model, "config.json"), "w") as file:
            json.dump(MODEL, file)
        names = {field for field in ServerArgs.__struct_fields__ if not field.startswith("_")}
        fields = {
            name: value for name, value in msgspec.structs.asdict(given).items() if name in names
        }
        fields |= {"model_path": model, "tokenizer_path": model}
        fields["device"] = fields["device"] or "cuda"
        args = ServerArgs(**fields)
        args.resolve_once()
        check_server_args(args)
        return {"given": raw, "resolved": service.plain(args.resolved_dict(), depth=3)}


WARM = {"argv": ["sglang", "serve", "model", "--enable-hierarchical-cache"]}

if __name__ == "__main__":
    service.serve(answer, WARM)
