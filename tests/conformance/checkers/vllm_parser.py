"""What vLLM makes of a command line: its own `main`, stopped where it would start the server.

Request `{"argv": [...], "env": {...}}`, argv as in the pod (`vllm serve ...`,
`python3 -m vllm.entrypoints.openai.api_server ...`, any prefix already taken off). The result:
`kv_transfer_config` as VllmConfig leaves it (so with `--kv-offloading-size` applied and the
allocator guard run), `connectors` (the classes that KVConnectorFactory resolves, MultiConnector's
children after it), `hma` (whether all of them support the hybrid allocator) and `engine_args`.
Without a model and a GPU, checks that need either do not run.

Request `{"kind": "options"}`: `options`, the flags of its parser (options.py).
"""

import json
import os

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import sys
from unittest import mock

import options
import service
import vllm.entrypoints.cli.main
import vllm.entrypoints.cli.serve
import vllm.entrypoints.launchers.api_server.entry as server
import vllm.envs
from vllm.config import CacheConfig, DeviceConfig, KVTransferConfig, VllmConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.common.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

MODULES = {"vllm.entrypoints.openai.api_server", "vllm.entrypoints.launchers.api_server.entry"}


class _Stopped(BaseException):
    """Carries the parsed arguments out of vLLM's main."""


def _stop(args):
    raise _Stopped(args)


def _parse(argv: list[str]):
    """The Namespace with which vLLM would start, by its own main."""
    program = os.path.basename(argv[0])
    if program.startswith("python") and argv[1:2] == ["-m"] and argv[2] in MODULES:
        sys.argv = argv[2:]
        main, target = server.main, mock.patch.object(server, "run_server", _stop)
    elif program == "vllm" and argv[1:2] == ["serve"]:
        main = vllm.entrypoints.cli.main.main
        command = vllm.entrypoints.cli.serve.ServeSubcommand
        target = mock.patch.object(command, "cmd", staticmethod(_stop))
    else:
        raise ValueError(f"not a command that starts vLLM's server: {argv[:3]}")
    with target:
        try:
            main()
        except _Stopped as stopped:
            return stopped.args[0]
    raise RuntimeError("vLLM's main returned without starting a server")


def _connectors(config: KVTransferConfig) -> list[dict]:
    found = KVConnectorFactory.get_connector_class(config)
    classes = [{"name": found.__name__, "module": found.__module__}]
    if found.__name__ == "MultiConnector":
        for child in config.kv_connector_extra_config["connectors"]:
            # As MultiConnector builds its children: one engine for all of them.
            classes += _connectors(KVTransferConfig(**child, engine_id=config.engine_id))
    return classes


def _read_environment() -> None:
    """Read every variable that vLLM reads, since most are read long after parsing."""
    for name in vllm.envs.environment_variables:
        getattr(vllm.envs, name)


def answer(request: dict) -> dict:
    if request.get("kind") == "options":
        return {"options": options.rows(make_arg_parser(FlexibleArgumentParser()))}
    args = _parse(request["argv"])
    _read_environment()
    if getattr(args, "model_tag", None) is not None:
        args.model = args.model_tag  # as ServeSubcommand.cmd does first
    engine = AsyncEngineArgs.from_cli_args(args)
    cache = CacheConfig(
        kv_offloading_size=engine.kv_offloading_size,
        kv_offloading_backend=engine.kv_offloading_backend,
    )
    whole = VllmConfig(
        cache_config=cache,
        device_config=DeviceConfig(device="cpu"),
        kv_transfer_config=engine.kv_transfer_config,
    )
    config = whole.kv_transfer_config
    active = config is not None and config.kv_connector is not None
    return {
        "kv_transfer_config": service.plain(config) if active else None,
        "connectors": _connectors(config) if active else [],
        "hma": KVConnectorFactory.supports_hma_config(config) if active else None,
        "kv_events_config": service.plain(engine.kv_events_config),
        "engine_args": service.plain(vars(engine), depth=3),
    }


# Connectors whose modules take long to import: once here, not in every child.
SLOW = ("NixlConnector", "OffloadingConnector", "LMCacheMPConnector", "MooncakeStoreConnector")
CHILDREN = [{"kv_connector": name, "kv_role": "kv_both"} for name in SLOW]
MULTI = {
    "kv_connector": "MultiConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"connectors": CHILDREN},
}
WARM = {"argv": ["vllm", "serve", "model", "--kv-transfer-config", json.dumps(MULTI)]}

if __name__ == "__main__":
    service.serve(answer, WARM)
