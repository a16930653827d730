"""What LMCache makes of its configuration, by its own classes.

Request `{"kind": "server", "argv": ["lmcache", "server", ...], "env": {...}}`: LMCache's own main,
stopped where it would start the server; the result holds its configuration objects (`http_config`,
`mp_config`, `storage_manager_config`, `obs_config`, `coordinator_config`).
Request `{"kind": "inprocess", "env": {"LMCACHE_CONFIG_FILE": PATH, ...}}`: the configuration that
LMCacheConnectorV1 would read; the result holds `config`, every key with its effective value.
"""

import os
import sys
from unittest import mock

os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")

import lmcache.cli.main
import lmcache.v1.multiprocess.http_server as http_server
import service
from lmcache.integration.vllm.utils import lmcache_get_or_create_config


class _Stopped(BaseException):
    """Carries the configuration out of LMCache's main."""


def _stop(**configs):
    raise _Stopped(configs)


def _server(argv: list[str]) -> dict:
    with mock.patch.object(http_server, "run_http_server", _stop):
        try:
            lmcache.cli.main.main(argv[1:])
        except _Stopped as stopped:
            return {name: service.plain(config) for name, config in stopped.args[0].items()}
    raise RuntimeError("lmcache's main returned without starting a server")


def answer(request: dict) -> dict:
    if request["kind"] == "server":
        return _server(request["argv"])
    sys.argv = ["lmcache"]
    config = lmcache_get_or_create_config()
    config.validate()
    return {"config": service.plain(config.to_dict())}


WARM = {"kind": "server", "argv": ["lmcache", "server", "--l1-size-gb=1", "--eviction-policy=LRU"]}

if __name__ == "__main__":
    service.serve(answer, WARM)
