"""Checks of hostPath directories: a tier may not use directories of the node."""

from function.problems import Problem

# Directories of the node, with all below them: the system's, the kubelet's, etcd's, and those of
# container runtimes and Kubernetes distributions.
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
# Directories that others use too; one below them is fine.
_SHARED = ("/", "/home", "/media", "/mnt", "/opt", "/srv", "/var", "/var/lib", "/var/cache")


def normalise(path: str) -> str:
    """Return an absolute path without empty parts and dots.

    `..` stays, for `find_problem` to refuse.
    """
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def find_problem(path: str, field: str) -> Problem | None:
    """Return the problem of a hostPath that `field` names, None for a valid one."""
    at = normalise(path)
    if ".." in at.split("/"):
        return Problem(field, "must not contain ..")
    above = any(own.startswith(f"{at.rstrip('/')}/") for own in _SYSTEM)
    if above or any(at == own or at.startswith(f"{own}/") for own in _SYSTEM):
        return Problem(field, f"{at} belongs to the node: choose a directory of the tier's own")
    if at in _SHARED:
        return Problem(field, f"{at} is not the tier's alone: choose a directory below it")
    return None
