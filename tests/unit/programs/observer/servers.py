"""Servers of a test on loopback: engines' pages, and an API server that holds one ConfigMap."""

import datetime
import http.server
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import programs

PATH = "/api/v1/namespaces/kv-offload-system/configmaps/kv-chat-serving"
TEXT = programs.module("observer/main.py") + "\nsys.exit(main(sys.argv[1:]))\n"


class Server:
    """A server of one address. `answer`: (method, path, body) -> status and body."""

    def __init__(
        self,
        answer: Callable[[str, str, bytes], tuple[int, str]],
        address: str = "127.0.0.1",
        port: int = 0,
        context: ssl.SSLContext | None = None,
    ):
        class Handler(http.server.BaseHTTPRequestHandler):
            def _do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                status, text = answer(self.command, self.path, self.rfile.read(length))
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_PATCH = do_POST = _do

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer((address, port), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class APIServer:
    """The ConfigMap of one observer, and every write to it."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.writes: list[dict] = []
        self.status = 200

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        if path.partition("?")[0] != PATH:
            return 403, '{"message": "may not"}'
        if self.status != 200:
            return self.status, '{"message": "not now"}'
        if method == "PATCH":
            self.data |= json.loads(body)["data"]
            self.writes.append(json.loads(self.data["state"]))
        return 200, json.dumps({"data": self.data})


def certificate(folder: Path) -> ssl.SSLContext:
    """Write a service account's files; the context serves with the certificate in them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "token").write_text("a-token\n")
    (folder / "ca.crt").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "both.pem").write_bytes(private + (folder / "ca.crt").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return context
