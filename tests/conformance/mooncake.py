"""A Mooncake pool from emitted manifests, as processes: masters, stores, etcd, wired engines.

What a cluster would add is added here and nowhere else: pods of a workload by number, the claims of
a StatefulSet, DNS, and a Service that has the ready pod behind it. The one substitution beyond
`pod.py`'s is a store's size in MOONCAKE_GLOBAL_SEGMENT_SIZE, and `values` where a test names them.
"""

import copy
import json
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.envs import Environment
from tests.conformance.manifests import ROOT, Manifest, one, render
from tests.conformance.node import Node
from tests.conformance.pod import Pod

EXAMPLES = ROOT / "example" / "mooncake"
HERE = Path(__file__).parent
TIERS = HERE / "tiers" / "mooncake"
GIB = 2**30
SIZE = "MOONCAKE_GLOBAL_SEGMENT_SIZE"
CLIENT_PORT = 7000


def with_env(template: Manifest, values: Mapping[str, str | None]) -> Manifest:
    """The template with other values of variables in every container; None takes one away."""
    out = copy.deepcopy(template)
    for container in [*out["spec"].get("initContainers", ()), *out["spec"]["containers"]]:
        env = [v for v in container.get("env", ()) if values.get(v["name"], "") is not None]
        for variable in env:
            if variable["name"] in values:
                variable.pop("valueFrom", None)
                variable["value"] = values[variable["name"]]
        if "env" in container:
            container["env"] = env
    return out


def until(happens: Callable[[], bool], timeout: float) -> float:
    """Seconds until it happened; TimeoutError where it did not."""
    begun = time.monotonic()
    while not happens():
        if time.monotonic() - begun > timeout:
            raise TimeoutError(f"not within {timeout} s")
        time.sleep(0.2)
    return time.monotonic() - begun


@dataclass(frozen=True)
class Did:
    """What became of the keys that a client was asked about, and how long it took."""

    ok: int
    missing: int
    corrupt: int
    failed: int
    seconds: float


def engine(
    path: Path, folder: Path, name: str, namespace: str = "team-a"
) -> tuple[Manifest, Manifest | None]:
    """(pod template, ConfigMap) of that engine in `tiers/mooncake/consumer.yaml`, wired."""
    tier = yaml.safe_load(path.read_text())
    condition = {"type": "Ready", "status": "True", "reason": "Available"}
    condition["lastTransitionTime"] = "2024-01-01T00:00:00Z"
    cluster = tier["spec"]["inferenceClusterRef"]["name"]
    tier["status"] = {"providerConfigRef": {"name": cluster}, "conditions": [condition]}
    required = folder / "required"
    required.mkdir(exist_ok=True)
    (required / "tier.yaml").write_text(yaml.safe_dump(tier))
    (required / "cluster.yaml").write_text((EXAMPLES / "required/cluster.yaml").read_text())
    consumer = yaml.safe_load((TIERS / "consumer.yaml").read_text())
    named = {"name": tier["metadata"]["name"]}
    consumer["metadata"]["namespace"] = namespace
    consumer["spec"]["template"]["spec"]["kvOffloadTierRef"] = named
    (folder / "consumer.yaml").write_text(yaml.safe_dump(consumer))
    manifests = render(folder / "consumer.yaml", required)
    maps = [m for m in manifests if m["kind"] == "ConfigMap"]
    return one(manifests, "Deployment", name)["spec"]["template"], (maps or [None])[0]


def as_client(template: Manifest, host: str = "") -> Manifest:
    """The pod template of an engine with `mooncake_client.py` in the place of the engine."""
    out = copy.deepcopy(template)
    (container,) = out["spec"]["containers"]
    script = (HERE / "mooncake_client.py").read_text().replace("$", "$$")
    container["command"], container["args"] = ["python3", "-c", script], [host or "localhost"]
    container["readinessProbe"] = {"tcpSocket": {"port": CLIENT_PORT}, "periodSeconds": 1}
    container.pop("startupProbe", None)
    return out


class Client:
    """An engine's pod that runs `mooncake_client.py` in place of the engine."""

    def __init__(self, pod: Pod):
        self.pod = pod

    def ask(
        self, what: str, prefix: str, first: int, last: int, size: int = 4 << 20, timeout: int = 120
    ) -> Did:
        query = f"prefix={prefix}&first={first}&last={last}&size={size}"
        url = f"http://{self.pod.address}:{CLIENT_PORT}/{what}?{query}"
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return Did(**json.load(answer))


class Pool:
    """The workloads of one tier's manifests. Everything started is stopped by `close`."""

    def __init__(
        self, node: Node, image: Environment, tier: Path, required: Path = EXAMPLES / "required"
    ):
        self.node, self.image, self.tier = node, image, tier
        self.manifests = render(tier, required)
        self.pods: list[Pod] = []
        self._closing = threading.Event()
        self._followers: list[threading.Thread] = []

    def close(self) -> None:
        self._closing.set()
        for thread in self._followers:
            thread.join()
        for pod in self.pods:
            pod.close()

    def manifest(self, kind: str, name: str) -> Manifest:
        return one(self.manifests, kind, name)

    def service(self, name: str) -> str:
        """The DNS name of an emitted Service."""
        meta = self.manifest("Service", name)["metadata"]
        return f"{meta['name']}.{meta['namespace']}.svc"

    def run(self, template: Manifest, name: str, image: Environment | None = None) -> Pod:
        """A pod that is restarted as the kubelet would."""
        pod = Pod(self.node, template, image or self.image, name=name, restart=True)
        self.pods.append(pod)
        return pod

    def master(self, number: int = 0) -> Pod:
        template = self.manifest("Deployment", "master")["spec"]["template"]
        return self.run(template, f"master-{number}")

    def etcd(self, program: Path) -> list[Pod]:
        """Every member of the emitted etcd, with the claims and names of a StatefulSet's pods."""
        manifest = self.manifest("StatefulSet", "etcd")
        name, spec = manifest["metadata"]["name"], manifest["spec"]
        bin_folder = self.node.folder / "etcd" / "bin"
        bin_folder.mkdir(parents=True)
        shutil.copy(program, bin_folder / "etcd")
        image = Environment("etcd", bin_folder.parent)
        members = []
        for number in range(spec["replicas"]):
            template = copy.deepcopy(spec["template"])
            template["spec"]["volumes"] = [
                {
                    "name": claim["metadata"]["name"],
                    "persistentVolumeClaim": {
                        "claimName": f"{claim['metadata']['name']}-{name}-{number}"
                    },
                }
                for claim in spec["volumeClaimTemplates"]
            ]
            member = self.run(template, f"{name}-{number}", image)
            self.node.service(f"{member.name}.{self.service('etcd')}", member.address)
            members.append(member)
        return members

    def lead(self, *masters: Pod) -> None:
        """From now on the master's Service has the one behind it that is ready."""
        name = self.service("master")

        def follow() -> None:
            while not self._closing.wait(0.1):
                ready = [pod.address for pod in masters if pod.ready]
                if ready:
                    self.node.service(name, ready[0])

        self._followers.append(threading.Thread(target=follow, daemon=True))
        self._followers[-1].start()

    def store_template(self, values: Mapping[str, str | None] | None = None) -> Manifest:
        kinds = {m["kind"] for m in self.manifests if m["metadata"]["name"].endswith("-store")}
        (kind,) = kinds & {"DaemonSet", "StatefulSet"}
        template = self.manifest(kind, "store")["spec"]["template"]
        return with_env(template, {SIZE: str(GIB), **(values or {})})

    def store_volumes(self) -> list[Manifest]:
        return self.store_template()["spec"]["volumes"]

    def store(self, number: int = 0, values: Mapping[str, str | None] | None = None) -> Pod:
        return self.run(self.store_template(values), f"store-{number}")

    def stores(self, count: int) -> list[Pod]:
        found = [self.store(number) for number in range(count)]
        for pod in found:
            pod.wait_ready(60)
        return found

    def client(
        self, folder: Path, name: str = "engine-0", host: str = "", namespace: str = "team-a"
    ) -> Client:
        """The wired vLLM pod with `mooncake_client.py` in the place of vLLM."""
        template, files = engine(self.tier, folder, "vllm", namespace)
        assert files is not None, "the engine gets no file"
        self.node.config_maps[files["metadata"]["name"]] = files["data"]
        pod = self.run(as_client(template, host), name)
        pod.wait_ready(60)
        return Client(pod)

    def admin(self, master: Pod, path: str) -> Any:
        """The answer of a master's admin server."""
        with urllib.request.urlopen(f"http://{master.address}:9003{path}", timeout=10) as answer:
            return json.load(answer)

    def used(self, master: Pod) -> dict[str, int]:
        """Bytes in use in each segment that takes blocks."""
        found: Sequence[dict[str, Any]] = self.admin(master, "/get_segments_detail")["segments"]
        return {s["segment_name"]: s["allocator_used_bytes"] for s in found if s["status"] == "OK"}
