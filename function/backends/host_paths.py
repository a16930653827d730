"""Directories of a node that a tier may use: its own, never one of the node's."""

from function.problems import Problem

# Directories of the node that are its own, and what is below them.
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin")
_SYSTEM += ("/sys", "/usr", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet", "/var/run")


def normal(path: str) -> str:
    """An absolute path without empty parts and dots; `..` stays, for `problem` to refuse."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def problem(path: str, where: str) -> Problem | None:
    """What is wrong with a directory of the node that `where` names, or None."""
    at = normal(path)
    if ".." in at.split("/"):
        return Problem(where, "must not contain ..")
    if at == "/" or any(at == own or at.startswith(f"{own}/") for own in _SYSTEM):
        return Problem(where, f"{at} belongs to the node itself; choose a directory of its own")
    return None
