"""Becomes a container: builds its file system, takes its user, and executes its command.

Run by container.py as process 1 of a new pid namespace, in new mount namespace, in its pod's
network namespace; reads one JSON description on stdin:
`{scratch, pid_file, writable, python: [paths], venv, mounts: [{source|tmpfs, path, read_only}],
hosts, user, group, groups, capabilities: [names], argv, env, cwd, last_pid}`. `scratch` is an empty
folder.
The machine's own file system stands in for the image, under a layer that holds the mount points.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def _mount(*words: object) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def _point(layer: Path, path: str, file: bool = False) -> None:
    """A mount point in the layer. Every folder above it is opened to other users."""
    target = layer / path.lstrip("/")
    (target.parent if file else target).mkdir(parents=True, exist_ok=True)
    if file:
        target.touch()
    for folder in (target, *target.parents):
        if folder == layer:
            break
        folder.chmod(0o755)


def main() -> None:
    spec = json.load(sys.stdin)
    # /proc is still the node's: there, this process has the number that others signal. It is told
    # when the container is complete.
    pid, pid_file = os.readlink("/proc/self"), open(spec["pid_file"], "w")  # noqa: SIM115
    _mount("--make-rprivate", "/")
    scratch = Path(spec["scratch"])
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", scratch)  # a layer may not lie in another
    root, layer = scratch / "root", scratch / "layer"
    for folder in (root, layer):
        folder.mkdir()
    interpreters = {path: path for path in spec["python"]}
    if spec["venv"]:
        interpreters["/opt/venv"] = spec["venv"]
    for path in (*interpreters, *(mount["path"] for mount in spec["mounts"])):
        _point(layer, path)
    for name in ("etc/hosts", "etc/resolv.conf"):
        _point(layer, name, file=True)
    (layer / "etc/hosts").unlink()
    os.symlink("/run/kv-offload-hosts", layer / "etc/hosts")
    (layer / "run").mkdir(exist_ok=True)
    (layer / "run/kv-offload-hosts").touch()

    options = f"lowerdir={layer}:/"
    if spec["writable"]:
        for name in ("upper", "work"):
            (scratch / name).mkdir()
        options += f",upperdir={scratch / 'upper'},workdir={scratch / 'work'}"
    _mount("-t", "overlay", "overlay", "-o", options, root)
    _mount("-t", "proc", "proc", root / "proc")
    _mount("--rbind", "/dev", root / "dev")
    _mount("--rbind", "/sys", root / "sys")
    _mount("-t", "tmpfs", "-o", "mode=1777,size=2g", "tmpfs", root / "dev/shm")
    for path, source in interpreters.items():
        _mount("--bind", source, root / path.lstrip("/"))
        _mount("-o", "remount,bind,ro", root / path.lstrip("/"))
    _mount("--bind", spec["hosts"], root / "run/kv-offload-hosts")
    for mount in sorted(spec["mounts"], key=lambda mount: mount["path"]):
        target = root / mount["path"].lstrip("/")
        if "source" in mount:
            _mount("--bind", mount["source"], target)
            if mount["read_only"]:
                _mount("-o", "remount,bind,ro", target)
        else:
            _mount("-t", "tmpfs", "-o", f"mode=1777,size={mount['tmpfs']}", "tmpfs", target)

    # Children of different pods get different numbers, as far apart as on a node.
    (root / "proc/sys/kernel/ns_last_pid").write_text(str(spec["last_pid"]))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chroot(root)
    os.chdir(spec["cwd"])
    command = [*_as_user(spec), *spec["argv"]]
    program = shutil.which(command[0], path=spec["env"].get("PATH"))
    if program is None:
        sys.exit(f"not found in the container: {command[0]}")
    pid_file.write(pid)
    pid_file.close()
    os.execve(program, command, spec["env"])


def _as_user(spec: dict) -> list[str]:
    if spec["user"] is None:
        return []
    groups = ",".join(map(str, spec["groups"]))
    kept = "".join(f",+{name.lower()}" for name in spec["capabilities"])
    return [
        "setpriv",
        f"--reuid={spec['user']}",
        f"--regid={spec['group']}",
        f"--groups={groups}" if groups else "--clear-groups",
        f"--bounding-set=-all{kept}",
        "--inh-caps=-all",
        "--no-new-privs",
    ]


if __name__ == "__main__":
    main()
