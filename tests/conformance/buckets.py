"""A store of buckets for those that want one: moto, in memory, as the process of a pod.

It checks no signature. The image is `envs.beside("levels")`.
"""

from tests.conformance.envs import beside
from tests.conformance.node import Node
from tests.conformance.pod import Pod

HOST = "s3.databases.svc"
# The keys that a Secret for it holds; any would do.
CREDENTIALS = {"accessKeyID": "AKIAKVOFFLOAD", "secretAccessKey": "sec/ret+key"}
_SERVE = """
import os, sys, threading, time, urllib.request
from moto.server import main
host, bucket = sys.argv[1:]
ask = urllib.request.Request("http://127.0.0.1/", method="PUT")
ask.add_header("Host", f"{bucket}.{host}")
def create():
    while True:
        try:
            return urllib.request.urlopen(ask).close()
        except urllib.error.URLError:
            time.sleep(0.1)
threading.Thread(target=create, daemon=True).start()
os.environ["MOTO_S3_CUSTOM_ENDPOINTS"] = f"http://{host}"
main(["-H", "0.0.0.0", "-p", "80"])
"""


def template(bucket: str) -> dict[str, object]:
    """A pod's template that serves HTTP at port 80, and has that bucket."""
    container = {
        "name": "bucket",
        "command": ["python3", "-c", _SERVE, HOST, bucket],
        "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1},
    }
    return {"spec": {"containers": [container]}}


def name(node: Node, bucket: str, pod: Pod) -> None:
    """Let its names be found: for clients that ask by path, and by a host of the bucket's own."""
    for host in (HOST, f"{bucket}.{HOST}"):
        node.service(host, pod.address)


def start(node: Node, bucket: str) -> Pod:
    """The store at its names, not awaited."""
    pod = Pod(node, template(bucket), beside("levels"), name="s3")
    name(node, bucket, pod)
    return pod
