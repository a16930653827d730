"""Directories of a node that a tier may use: its own, never one of the node's."""

from function.problems import Problem

# Directories of the node that are its own, and what is below them: the system's, the kubelet's,
# etcd's, and those of container runtimes and distributions of Kubernetes.
_SYSTEM = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/run",
    "/var/log",
    "/var/spool",
    "/var/tmp",
    "/tmp",
    "/var/lib/kubelet",
    "/var/lib/etcd",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/dockershim",
    "/var/lib/crio",
    "/var/lib/cni",
    "/var/lib/rancher",
    "/var/lib/k0s",
    "/var/lib/k3s",
    "/var/lib/microk8s",
    "/var/snap",
    "/var/lib/cloud",
    "/var/lib/systemd",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/opt/cni",
    "/opt/containerd",
    "/home/kubernetes",
)
# Directories that hold other people's; one below them is fine.
_SHARED = ("/", "/home", "/media", "/mnt", "/opt", "/srv", "/var", "/var/lib", "/var/cache")


def normal(path: str) -> str:
    """An absolute path without empty parts and dots; `..` stays, for `problem` to refuse."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def problem(path: str, field: str) -> Problem | None:
    """What is wrong with a directory of the node that `field` names, or None."""
    at = normal(path)
    if ".." in at.split("/"):
        return Problem(field, "must not contain ..")
    above = any(own.startswith(f"{at.rstrip('/')}/") for own in _SYSTEM)
    if above or any(at == own or at.startswith(f"{own}/") for own in _SYSTEM):
        return Problem(field, f"{at} belongs to the node itself; choose a directory of its own")
    if at in _SHARED:
        return Problem(field, f"{at} is not the tier's alone; choose a directory below it")
    return None
