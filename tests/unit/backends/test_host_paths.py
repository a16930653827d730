"""Which directories of a node a tier may use."""

import pytest

from function.backends import host_paths

NODES_OWN = (
    "/", "/etc", "/etc/kubernetes", "/usr/local", "/var/lib/kubelet/kv", "/var/lib/rancher/x",
    "/home/kubernetes", "//proc/./1", "/var/lib/containerd", "/tmp", "/run/x", "//", "/.",
    "/x/..", "///", "/proc", "/sys/fs/cgroup", "/dev/shm", "//dev", "/etc/../etc", "/root",
    "/run/containerd", "/var/run/docker.sock", "/run/containerd/containerd.sock",
    "/var//lib/./kubelet", "/var/lib/lxc", "/mnt/../etc", "/nix/store", "/host/etc",
    "/var/lib/cilium", "/mnt/stateful_partition/var",
)  # fmt: skip
SHARED = ("/home", "/opt", "/mnt", "/srv", "/var/cache/")
ABOVE = ("/var", "/var/lib", "/home/kubernetes/..")
FINE = ("/mnt/nvme", "/data/kv", "/var/lib/kv-offload", "/home/kv", "/opt/kv", "/etcetera", "/runs")


@pytest.mark.parametrize("path", [*NODES_OWN, *SHARED, *ABOVE])
def test_refused(path: str) -> None:
    found = host_paths.find_problem(path, "spec.x")
    assert found is not None
    assert found.path == "spec.x"


@pytest.mark.parametrize("path", FINE)
def test_accepted(path: str) -> None:
    assert host_paths.find_problem(path, "spec.x") is None
