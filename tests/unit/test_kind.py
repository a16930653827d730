"""`make kind`, as far as a machine without Docker shows it: which commands it runs, in which order.

Stand-ins for docker, kind, helm and kubectl record their calls and start nothing. That Docker does
what the script expects is not tested. Its manifests are applied on the rig
(tests/cluster/test_10_install.py).
"""

import os
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
KIND = ROOT / "tools" / "kind"
ADDRESS = "172.18.0.5:5000"
# It answers what the script asks for; `fails`: a command that fails; `there`: an earlier run's.
STANDIN = f"""#!/bin/sh
call="$(basename "$0") $*"
echo "$call" >>"$CALLS"
case "$call" in "$FAILS"*) [ -z "$FAILS" ] || exit 1 ;; esac
case "$call" in
  "kind get clusters") [ -z "$THERE" ] || echo kv-offload ;;
  "kind get nodes"*) echo kv-offload-control-plane; echo kv-offload-worker ;;
  *IPAddress*) echo {ADDRESS.partition(":")[0]} ;;
  "docker exec"* | *kubeconfig=/dev/stdin* | *" -f -") {{ echo "given:"; cat; }} >>"$CALLS" ;;
  *"get kubeconfig"*) echo "server: https://kv-offload-control-plane:6443" ;;
esac
"""


@dataclass(frozen=True)
class Machine:
    """A PATH with stand-ins, and what they were called with."""

    folder: Path

    def run(self, verb: str, fails: str = "", there: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": str(self.folder / "bin"),
            "CALLS": str(self.folder / "calls"),
            "FAILS": fails,
            "THERE": there,
        }
        command = ["/bin/bash", str(KIND / "kind.sh"), verb]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def position(self, start: str) -> int:
        """Where the one call that starts so is."""
        (found,) = (n for n, call in enumerate(self.calls) if call.startswith(start))
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    for name in ("cat", "dirname", "basename", "sed", "grep", "mkdir", "sh"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    for name in ("docker", "kind", "helm", "kubectl"):
        file = tmp_path / "bin" / name
        file.write_text(STANDIN)
        file.chmod(0o755)
    return Machine(tmp_path)


def test_commands_run_in_their_order(machine: Machine):
    done = machine.run("up")
    assert done.returncode == 0, done.stderr
    order = [
        "docker info",
        "kind create cluster --name kv-offload --config",
        "docker run --detach --network kind",
        "helm upgrade --install crossplane crossplane",
        "docker run --rm --network kind",
        f"kubectl --context kind-kv-offload apply -f {ROOT}/dist/kind/install.yaml",
        f"kubectl --context kind-kv-offload apply -f {KIND}/fleet.yaml",
        "kubectl --context kind-kv-offload wait --for=condition=KVOffloadReady",
    ]
    positions = [machine.position(start) for start in order]
    assert positions == sorted(positions)
    assert done.stdout.count("\n== ") == 6


def test_packages_are_built_of_the_checkout_for_the_registry_of_the_cluster(machine: Machine):
    machine.run("up")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    call = machine.calls[machine.position("docker run --rm")]
    assert f"/source/tools/kind/packages.sh /source /out v{version} {ADDRESS} " in call
    assert f"--volume {ROOT}:/source:ro --volume {ROOT}/dist/kind:/out" in call


def test_each_node_pulls_from_the_registry_by_http(machine: Machine):
    machine.run("up")
    calls = "\n".join(machine.calls)
    assert calls.count(f"/etc/containerd/certs.d/{ADDRESS}/hosts.toml") == 2
    assert calls.count(f'given:\n[host."http://{ADDRESS}"]') == 2


def test_kubeconfig_is_the_one_for_inside_the_cluster(machine: Machine):
    machine.run("up")
    assert "kind get kubeconfig --internal --name kv-offload" in machine.calls
    assert "server: https://kv-offload-control-plane:6443" in machine.calls
    secret = machine.calls[machine.position("kubectl --context kind-kv-offload create secret")]
    (cluster,) = (d for d in _fleet() if d["kind"] == "InferenceCluster")
    reference = cluster["spec"]["cluster"]["existing"]["secretRef"]
    assert f"generic {reference['name']} --namespace modelplane-system" in secret


def test_second_run_keeps_the_cluster_and_takes_an_empty_registry(machine: Machine):
    """A release is pushed over no other of its version."""
    assert machine.run("up", there="yes").returncode == 0
    assert "kind create cluster" not in "\n".join(machine.calls)
    removed, started = map(machine.position, ("docker rm --force", "docker run --detach"))
    assert removed < started < machine.position("docker run --rm")


STEPS = ("kind create", "docker run --detach", "helm", "docker run --rm")


@pytest.mark.parametrize("failed", STEPS)
def test_failing_command_ends_it(machine: Machine, failed: str):
    done = machine.run("up", fails=failed)
    assert done.returncode != 0
    assert machine.calls[-1].startswith(failed)
    assert "Everything is there" not in done.stdout


def test_every_missing_command_is_named(machine: Machine):
    for name in ("kind", "helm"):
        (machine.folder / "bin" / name).unlink()
    done = machine.run("up")
    assert done.returncode == 1
    assert "make kind needs kind helm" in done.stderr
    assert not (machine.folder / "calls").exists()


def test_docker_that_does_not_run_is_named(machine: Machine):
    done = machine.run("up", fails="docker info")
    assert (done.returncode, machine.calls) == (1, ["docker info"])
    assert "Docker does not run" in done.stderr


def test_down_removes_cluster_registry_and_volumes(machine: Machine):
    assert machine.run("down").returncode == 0
    assert machine.calls == [
        "kind delete cluster --name kv-offload",
        "docker rm --force kv-offload-registry",
        "docker volume rm --force kv-offload-go kv-offload-cache",
    ]


def test_packages_are_those_of_make_release(tmp_path: Path):
    """In a clone of what is committed, by another user; stand-ins for apt-get and make."""
    source, out, bin_folder = (tmp_path / name for name in ("source", "out", "bin"))
    for folder in (source, out, bin_folder):
        folder.mkdir()
    git = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@t"]
    (source / "committed").write_text("")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    (source / "not committed").write_text("")
    made = (
        'mkdir -p dist/release; cd dist/release; ls ../.. >install.yaml; echo "$*" >standalone.yaml'
    )
    for name, text in (("apt-get", ""), ("make", made), ("dpkg", "echo arm64")):
        (bin_folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_folder / name).chmod(0o755)
    if os.geteuid() == 0:
        for path in (source, *source.rglob("*")):
            os.chown(path, 1000, 1000)
    arguments = [str(source), str(out), "v1.2.3", ADDRESS, "host/provider"]
    path = f"{bin_folder}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HOME": str(tmp_path)}
    script = ["sh", str(KIND / "packages.sh"), *arguments]
    subprocess.run(script, env=environment, check=True)
    assert (out / "install.yaml").read_text().split() == ["committed", "dist"]
    assert (out / "standalone.yaml").read_text().strip() == (
        f"release VERSION=v1.2.3 REGISTRY={ADDRESS} PROVIDER=host/provider PUSH=1 "
        "RELEASE_ARGS=--platforms arm64"
    )


def test_nodes_have_the_label_of_gpu_nodes():
    cluster = yaml.safe_load((KIND / "cluster.yaml").read_text())
    assert (cluster["kind"], cluster["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    assert [node["role"] for node in cluster["nodes"]] == ["control-plane", "worker", "worker"]


def _fleet() -> list[dict]:
    return list(yaml.safe_load_all((KIND / "fleet.yaml").read_text()))
