"""How long vLLM's own level of a bucket waits for one that hangs, with our class of it.

    python bounded_bucket.py TYPE [MODULE_PATH]

TYPE: our class, imported from MODULE_PATH, or upstream's `obj`. Prints what was seen, as JSON.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

from checked_files import Level as Blocks  # type: ignore[import-not-found]

BLOCKS = 30  # more than are asked for at once
answers = threading.Event()
# Bodies as they are, where the SDK's default wraps them into chunks with checksums.
os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required"


class Bucket(BaseHTTPRequestHandler):
    """A bucket in memory that answers nothing while `answers` is not set."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes] = {}

    def do_HEAD(self):
        answers.wait()
        self._say(200 if self.path in self.objects else 404, len(self.objects.get(self.path, b"")))

    def do_GET(self):
        answers.wait()
        self._say(206, len(self.objects[self.path]))
        self.wfile.write(self.objects[self.path])

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answers.wait()
        self.objects[self.path] = body
        self._say(200, 0)

    def _say(self, code, length):
        self.send_response(code)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *_):
        pass


class Level(Blocks):
    def hits(self, request="r"):
        """Return how many blocks a new request finds."""
        found = super().hits(request)
        self.tier.on_request_finished(SimpleNamespace(req_id=request))
        return sum(found)


def timed(do):
    begun = time.monotonic()
    return do(), round(time.monotonic() - begun, 1)


def main():
    answers.set()
    Bucket.timeout = 600
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    store = {
        "bucket": "blocks",
        "endpoint_override": f"http://127.0.0.1:{server.server_port}",
        "region": "eu-central-1",
        "access_key": "any",
        "secret_key": "any",
    }
    ours = dict(zip(("type", "module_path"), sys.argv[1:], strict=False))
    level = Level(None, BLOCKS, **ours, store_config=store, prefix="identity")
    content = bytes(range(BLOCKS)) * (level.memory.nbytes // BLOCKS)
    flat = level.memory.reshape(-1)
    flat[:] = list(content)
    said = {"stored": level.run(level.tier.submit_store).success, "hits": level.hits()}
    flat[:] = 0
    said["loaded"] = level.run(level.tier.submit_load).success and bytes(flat) == content
    said["label"] = level.tier.tier_type
    answers.clear()
    said["first"] = timed(lambda: level.hits("first"))
    said["next"] = timed(lambda: level.hits("next"))
    said["store"] = timed(lambda: level.run(level.tier.submit_store).success)
    answers.set()
    time.sleep(12)  # more than it waits before it asks again
    said["again"] = timed(lambda: level.hits("again"))
    said["left"] = sorted(name for name in os.environ if name.startswith("AWS_RETRY"))
    print(json.dumps(said), flush=True)
    os._exit(0)  # NIXL may crash at its end


if __name__ == "__main__":
    main()
