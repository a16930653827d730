"""A pure client of the pool, as an engine's pod holds one: it stays, and does as it is told.

Runs as the engine container's command, with the wiring that was emitted for that container, through
vLLM's own configuration class and set-up. GET /put, /batch and /get take `prefix`, `first`, `last`
and `size`, and answer `{ok, missing, corrupt, failed, seconds}` in numbers of keys; a value follows
from its key, so that any client can check what another wrote. GET /block returns what is under the
key `name`, PUT /block puts the body there.
"""

import importlib.util
import json
import random
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from mooncake.store import MooncakeDistributedStore


def of_vllm(path):
    """One module of vLLM without the rest of it, which would load torch."""
    (folder,) = importlib.util.find_spec("vllm").submodule_search_locations
    spec = importlib.util.spec_from_file_location("of_vllm", Path(folder, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules["of_vllm"] = module
    spec.loader.exec_module(module)
    return module


def value(key, size):
    return random.Random(key).randbytes(size)


class Handler(BaseHTTPRequestHandler):
    store = None

    def do_GET(self):
        url = urlsplit(self.path)
        asked = dict(parse_qsl(url.query))
        if url.path == "/block":
            self.reply(self.store.get(asked["name"]))  # type: ignore[attr-defined]
            return
        begun = time.monotonic()
        counts = dict.fromkeys(("ok", "missing", "corrupt", "failed"), 0)
        for number in range(int(asked["first"]), int(asked["last"])):
            key = f"{asked['prefix']}-{number}"
            counts[getattr(self, url.path.strip("/"))(key, int(asked["size"]))] += 1
        self.reply(json.dumps(counts | {"seconds": time.monotonic() - begun}).encode())

    def do_PUT(self):
        name = dict(parse_qsl(urlsplit(self.path).query))["name"]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.store.remove(name, True)  # type: ignore[attr-defined]
        self.reply(str(self.store.put(name, body)).encode())  # type: ignore[attr-defined]

    def reply(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def put(self, key, size):
        return "failed" if self.store.put(key, value(key, size)) else "ok"  # type: ignore[attr-defined]

    def batch(self, key, size):
        return "failed" if self.store.put_batch([key], [value(key, size)]) else "ok"  # type: ignore[attr-defined]

    def get(self, key, size):
        found = self.store.get(key)  # type: ignore[attr-defined]
        if not found:
            return "missing"
        return "ok" if found == value(key, size) else "corrupt"

    def log_message(self, *_):
        pass


def main():
    module = of_vllm("distributed/mooncake_store.py")
    config = module.MooncakeStoreConfig.load_from_config()
    print(config, flush=True)
    Handler.store = MooncakeDistributedStore()
    module.setup_mooncake_store(Handler.store, config, sys.argv[1])
    ThreadingHTTPServer(("0.0.0.0", 7000), Handler).serve_forever()


main()
