"""A loopback OCI registry that serves package files, so that core's package manager installs them.

It speaks the part of the distribution protocol that pulling takes: manifests by tag or digest, and
blobs. A package file (`crossplane xpkg build`) is an image as `docker save` writes it.
"""

import contextlib
import hashlib
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_DOCKER = "application/vnd.docker"
_MANIFEST = f"{_DOCKER}.distribution.manifest.v2+json"
_CONFIG = f"{_DOCKER}.container.image.v1+json"
_LAYER = f"{_DOCKER}.image.rootfs.diff.tar.gzip"


class Registry:
    """`address` is where it listens; packages are pushed by handing over their files."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._tags: dict[str, str] = {}
        self._blobs: dict[str, tuple[str, bytes]] = {}

    def push(self, repository: str, tag: str, package: Path) -> str:
        """Serve a package file under repository:tag; its whole reference."""
        with tarfile.open(package) as image:
            (entry,) = json.load(image.extractfile("manifest.json"))
            config = self._keep(_CONFIG, image.extractfile(entry["Config"]).read())
            layers = [self._keep(_LAYER, image.extractfile(n).read()) for n in entry["Layers"]]
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": config,
            "layers": layers,
        }
        kept = self._keep(_MANIFEST, json.dumps(manifest).encode())
        self._tags[f"{repository}:{tag}"] = kept["digest"]
        return f"{self.address}/{repository}:{tag}"

    def find(self, path: str) -> tuple[str, str, bytes] | None:
        """Media type, digest and content of /v2/REPOSITORY/(manifests|blobs)/REFERENCE."""
        repository, _, reference = path.removeprefix("/v2/").rpartition("/")
        name, _, _ = repository.rpartition("/")
        digest = self._tags.get(f"{name}:{reference}", reference)
        found = self._blobs.get(digest)
        return (found[0], digest, found[1]) if found else None

    def _keep(self, media_type: str, content: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self._blobs[digest] = (media_type, content)
        return {"mediaType": media_type, "size": len(content), "digest": digest}


@contextlib.contextmanager
def registry() -> Iterator[Registry]:
    """A registry on a free port of the loopback address, for as long as the context lasts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.registry = Registry(f"127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.registry  # type: ignore[attr-defined]
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.path.rstrip("/") == "/v2":
            return self._send(200, "application/json", b"{}")
        found = self.server.registry.find(self.path)  # type: ignore[attr-defined]
        if found is None:
            return self._send(404, "application/json", b'{"errors": [{"code": "NAME_UNKNOWN"}]}')
        media_type, digest, content = found
        return self._send(200, media_type, content, digest)

    def _send(self, code: int, media_type: str, content: bytes, digest: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
