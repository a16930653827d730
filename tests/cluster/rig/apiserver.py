"""etcd, API servers that share it, and the controllers of Kubernetes itself."""

import base64
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig.certs import Authority, service_account_key, write_private
from tests.cluster.rig.kube import Api, Manifest
from tests.cluster.rig.ports import free_ports, listening
from tests.cluster.rig.processes import Part
from tests.tools.find import require

# What a control plane of Crossplane needs from kube-controller-manager: no pods run on it.
CONTROL_PLANE_CONTROLLERS = (
    "garbage-collector-controller,namespace-controller,serviceaccount-controller"
)
AUDIT_LOG = "audit.log"
# A controller without a twin and without a port of its own. Simulated pods come and go at once; the
# defaults throttle an honest roll of many nodes.
_ALONE = (
    "--leader-elect=false",
    "--secure-port=0",
    "--profiling=false",
    "--kube-api-qps=200",
    "--kube-api-burst=400",
    "--v=1",
)


@dataclass(frozen=True)
class Etcd:
    part: Part
    url: str


def etcd(run: Path) -> Etcd:
    """One etcd for all API servers. Its data dies with the rig, so nothing is synced to disk."""
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    argv = [
        str(require("etcd")),
        "--name=rig",
        f"--data-dir={run / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=rig={peer}",
        "--unsafe-no-fsync=true",
        "--log-level=warn",
        "--auto-compaction-retention=5m",
    ]
    port = int(client.rsplit(":", 1)[1])
    return Etcd(Part("etcd", argv, run / "logs" / "etcd.log", lambda: listening(port)), client)


@dataclass(frozen=True)
class Cluster:
    """An API server and what talks to it. `users` maps a token's user name to its kubeconfig."""

    name: str
    part: Part
    api: Api
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def ca_bundle(self) -> bytes:
        return (self.folder / "serving" / "ca.crt").read_bytes()

    def kubeconfig_of(self, user: str) -> Path:
        return self.folder / f"kubeconfig-{user}"

    def kubeconfig_secret(self, namespace: str) -> Manifest:
        """The kubeconfig as what others reach this cluster by, below the key `kubeconfig`.

        With RBAC it is the provider's own.
        """
        own = self.kubeconfig_of("provider")
        text = (own if own.exists() else self.kubeconfig).read_bytes()
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{self.name}-kubeconfig", "namespace": namespace},
            "data": {"kubeconfig": base64.b64encode(text).decode()},
        }


@dataclass(frozen=True)
class User:
    """A user of the token file."""

    name: str
    groups: tuple[str, ...] = ()


def cluster(
    name: str,
    run: Path,
    etcd_url: str,
    authority: Authority,
    authorization: str = "AlwaysAllow",
    users: dict[str, User] | None = None,
    audited: bool = False,
) -> Cluster:
    """An API server of its own, told apart from the others in etcd by a prefix.

    `users` are further users by the name of their kubeconfig; who runs the rig is system:masters.
    `audited`: it logs who writes what, in `audit.log`.
    """
    folder = run / name
    (port,) = free_ports(1)
    serving = authority.issue(folder / "serving", name)
    signing = service_account_key(folder / "service-account.key")
    known = {"": User("rig", ("system:masters",))} | (users or {})
    tokens = {key: secrets.token_urlsafe(24) for key in known}
    rows = [
        f'{tokens[key]},{user.name},{user.name},"{",".join(user.groups)}"'
        for key, user in known.items()
    ]
    write_private(folder / "tokens.csv", "\n".join([*rows, ""]).encode())
    argv = [
        str(require("kube-apiserver")),
        f"--etcd-servers={etcd_url}",
        f"--etcd-prefix=/{name}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={serving / 'tls.crt'}",
        f"--tls-private-key-file={serving / 'tls.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        f"--authorization-mode={authorization}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={signing}",
        f"--service-account-signing-key-file={signing}",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        "--profiling=false",
        "--goaway-chance=0",
        "--shutdown-delay-duration=0s",
        "--v=1",
        *(_audit(folder) if audited else ()),
    ]
    clients = {
        key: Api(name, f"https://localhost:{port}", serving / "ca.crt", token)
        for key, token in tokens.items()
    }
    for key, client in clients.items():
        path = folder / ("kubeconfig" if not key else f"kubeconfig-{key}")
        write_private(path, client.kubeconfig().encode())
    api = clients.pop("")
    for client in clients.values():
        client.close()
    log = run / "logs" / f"apiserver-{name}.log"
    part = Part(f"apiserver-{name}", argv, log, api.ready, limit=60, grace=20)
    return Cluster(name, part, api, folder)


def _audit(folder: Path) -> list[str]:
    """Return the flags that log every write and its author."""
    reads = {"level": "None", "verbs": ["get", "list", "watch"]}
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [reads, {"level": "Metadata"}],
    }
    file = folder / "audit-policy.json"
    write_private(file, json.dumps(policy).encode())
    return [f"--audit-policy-file={file}", f"--audit-log-path={folder / AUDIT_LOG}"]


def controller_manager(run: Path, target: Cluster, controllers: str = "*") -> Part:
    argv = [
        str(require("kube-controller-manager")),
        f"--kubeconfig={target.kubeconfig}",
        f"--root-ca-file={target.folder / 'serving' / 'ca.crt'}",
        f"--service-account-private-key-file={target.folder / 'service-account.key'}",
        f"--controllers={controllers}",
        *_ALONE,
    ]
    log = run / "logs" / f"controllers-{target.name}.log"
    return Part(f"controllers-{target.name}", argv, log)


def scheduler(run: Path, target: Cluster) -> Part:
    argv = [
        str(require("kube-scheduler")),
        f"--kubeconfig={target.kubeconfig}",
        *_ALONE,
    ]
    return Part(f"scheduler-{target.name}", argv, run / "logs" / f"scheduler-{target.name}.log")
