"""A store of buckets for those that want one: moto, in memory, as the process of a pod.

It checks no signature. The image is `envs.environment_with("levels")`.
"""

import tempfile
from pathlib import Path

from tests.cluster.rig.certs import Authority
from tests.conformance.envs import environment_with
from tests.conformance.node import Node
from tests.conformance.pod import Pod

HOST = "s3.databases.svc"
# The keys that a Secret for it holds; any would do.
CREDENTIALS = {"accessKeyID": "AKIAKVOFFLOAD", "secretAccessKey": "sec/ret+key"}
_SERVE = """
import os, ssl, sys, threading, time, urllib.request
from moto.server import main
host, bucket, *tls = sys.argv[1:]
scheme, port = ("https", "443") if tls else ("http", "80")
ask = urllib.request.Request(f"{scheme}://127.0.0.1/", method="PUT")
ask.add_header("Host", f"{bucket}.{host}")
def create():
    while True:
        try:
            return urllib.request.urlopen(ask, context=ssl._create_unverified_context()).close()
        except urllib.error.URLError:
            time.sleep(0.1)
threading.Thread(target=create, daemon=True).start()
os.environ["MOTO_S3_CUSTOM_ENDPOINTS"] = f"{scheme}://{host}"
main(["-H", "0.0.0.0", "-p", port, *(("-s", "-c", tls[0], "-k", tls[1]) if tls else ())])
"""
_TLS = "s3-tls"


def template(bucket: str, *, tls: bool = False) -> dict[str, object]:
    """A pod's template that serves HTTP at port 80, or HTTPS at 443, and has that bucket."""
    files = ("/tls/tls.crt", "/tls/tls.key") if tls else ()
    container = {
        "name": "bucket",
        "command": ["python3", "-c", _SERVE, HOST, bucket, *files],
        "readinessProbe": {"tcpSocket": {"port": 443 if tls else 80}, "periodSeconds": 1},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}] if tls else [],
    }
    volumes = [{"name": "tls", "secret": {"secretName": _TLS}}] if tls else []
    return {"spec": {"containers": [container], "volumes": volumes}}


def certify(node: Node, config_map: str) -> None:
    """A certificate for the store, of an authority that nobody knows: it is in that ConfigMap."""
    authority = Authority.new()
    with tempfile.TemporaryDirectory() as name:
        folder = authority.issue(Path(name), HOST, HOST, f"*.{HOST}")
        files = ("tls.crt", "tls.key")
        node.secrets[_TLS] = {file: (folder / file).read_text() for file in files}
    node.config_maps[config_map] = {"ca.crt": authority.pem.decode()}


def name(node: Node, bucket: str, pod: Pod) -> None:
    """Let its names be found: for clients that ask by path, and by a host of the bucket's own."""
    for host in (HOST, f"{bucket}.{HOST}"):
        node.service(host, pod.address)


def start(node: Node, bucket: str) -> Pod:
    """The store at its names, not awaited."""
    pod = Pod(node, template(bucket), environment_with("levels"), name="s3")
    name(node, bucket, pod)
    return pod
