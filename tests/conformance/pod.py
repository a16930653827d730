"""A pod template run as local processes, by one documented rule of substitution.

From the template itself: command, args, env with `$(NAME)` expansion, field and Secret references,
volumes and mounts at their own paths, ports, probes, hooks, grace period, user and groups,
capabilities, read-only root, process 1. Substituted:

1. the image by this machine's file system under a read-only layer, with the environment `vllm` at
   `/opt/venv` and first on the PATH, and what lies beside it on Python's path;
2. the pod's address by one on a local bridge, and cluster DNS by /etc/hosts (`Node.service`);
3. sizes that no test machine has, by `sizes`: flag -> value, in `args` of any container;
4. host paths and claims by folders of the node, whose owner and mode are the kubelet's; memory
   without a limit is 4 GiB;
5. the runtime's 64 MiB at /dev/shm by 2 GiB, where the template mounts nothing there: without a
   GPU, KV pools are shared as POSIX memory;
6. GPUs, RuntimeClass, limits of CPU and memory, hugepages, SELinux and seccomp: left out; probes
   find a driver that shows one GPU (driver.py).

Without root (a user namespace) there is one user id: runAsUser is left out as well.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance import driver
from tests.conformance.container import Container, Setting
from tests.conformance.envs import Environment
from tests.conformance.node import HOST_IP, Node

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PIDS = 1000  # process numbers between one pod and the next
INIT_TIMEOUT = 120.0  # seconds; the kubelet has none
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class PodFailed(Exception):
    """The pod did not become what was waited for; the message has the end of the log."""


def expand(text: str, env: Mapping[str, str]) -> str:
    """Kubernetes' expansion: `$(NAME)` of a known name is its value, `$$` anywhere is one `$`."""

    def one(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else env.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


class Pod:
    """`template` is a pod template (`metadata`, `spec`). The containers start at once.

    Init containers run to their end first, unless they restart always (sidecars). `logs`: a folder
    for the containers' logs, which otherwise go with the pod.
    """

    def __init__(
        self,
        node: Node,
        template: Mapping[str, Any],
        image: Environment | None,
        *,
        name: str = "pod",
        namespace: str = "default",
        sizes: Mapping[str, str] | None = None,
        restart: bool = False,
        logs: Path | None = None,
    ):
        self.node, self.spec, self.image = node, template["spec"], image
        self.labels: Mapping[str, str] = template.get("metadata", {}).get("labels", {})
        self.name, self.namespace = name, namespace
        self.sizes, self._restart, self._logs = sizes or {}, restart, logs
        self.address = node.address()
        self.containers: dict[str, Container] = {}
        self._folder = tempfile.TemporaryDirectory(prefix=f"{name}-", dir=node.folder)
        Path(self._folder.name).chmod(0o755)
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._await_holder()
        node.attach(self._holder.pid, self.address)
        self._volumes = {volume["name"]: volume for volume in self.spec.get("volumes", ())}
        for container in self.spec.get("initContainers", ()):
            self._start(container, sidecar=container.get("restartPolicy") == "Always")
        for container in self.spec["containers"]:
            self._start(container, sidecar=True)

    def _await_holder(self) -> None:
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self._holder.pid}/ns/net") == own:
            time.sleep(0.01)

    def _start(self, spec: Mapping[str, Any], sidecar: bool) -> None:
        setting = Setting(
            spec=spec,
            address=self.address,
            holder=self._holder.pid,
            description=self._describe(spec),
            restart=self._restart and sidecar,
            logs=self._logs,
        )
        container = self.containers[spec["name"]] = Container(setting)
        if not sidecar:
            begun = time.monotonic()
            while container.running:
                if time.monotonic() - begun > INIT_TIMEOUT:
                    raise PodFailed(f"init container {spec['name']} goes on:\n{container.log}")
                time.sleep(0.05)
            code = container.stop(0)[1]
            if code:
                raise PodFailed(f"init container {spec['name']} exited {code}:\n{container.log}")

    # from the specification to inside.py's description

    def _describe(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        env = self._env(spec)
        words = [*spec.get("command", ()), *self._sized(spec.get("args", ()))]
        security = {**self.spec.get("securityContext", {}), **spec.get("securityContext", {})}
        user = security.get("runAsUser") if self.node.can_change_user else None
        python = [sys.base_prefix]
        if self.image is not None:
            python += map(str, (self.image.path, *self.image.folders))
            if self.image.packages is not None:
                python.append(str(self.image.packages))
        return {
            "argv": [expand(word, env) for word in words],
            "env": env,
            "cwd": spec.get("workingDir", "/"),
            "user": user,
            "group": security.get("runAsGroup", user),
            "groups": [security["fsGroup"]] if "fsGroup" in security else [],
            "capabilities": security.get("capabilities", {}).get("add", []),
            "writable": not security.get("readOnlyRootFilesystem", False),
            "python": python,
            "venv": str(self.image.path) if self.image is not None else None,
            "hosts": str(self.node.hosts),
            "mounts": [
                *(self._mount(mount) for mount in spec.get("volumeMounts", ())),
                {"path": driver.PATH, "source": str(driver.folder()), "read_only": True},
            ],
            "last_pid": int(self.address.rpartition(".")[2]) % 30 * PIDS,
        }

    def _sized(self, args: Any) -> list[str]:
        out = list(args)
        for index, word in enumerate(out):
            flag, equals, _ = word.partition("=")
            if flag in self.sizes and equals:
                out[index] = f"{flag}={self.sizes[flag]}"
            elif index and out[index - 1] in self.sizes:
                out[index] = self.sizes[out[index - 1]]
        return out

    def _env(self, spec: Mapping[str, Any]) -> dict[str, str]:
        venv = "/opt/venv/bin:" if self.image is not None else ""
        env = {"PATH": venv + SYSTEM_PATH, "HOSTNAME": self.name}
        for variable in spec.get("env", ()):
            if "value" in variable:
                env[variable["name"]] = expand(variable["value"], env)
            elif "valueFrom" in variable:
                value = self._value(variable["valueFrom"])
                if value is not None:
                    env[variable["name"]] = value
            else:
                env[variable["name"]] = ""
        if self.image is not None and self.image.packages is not None:
            # As if it were installed: a pod's own path does not hide it.
            path = (env.get("PYTHONPATH"), str(self.image.packages))
            env["PYTHONPATH"] = ":".join(filter(None, path))
        if self.image is not None and self.image.libraries:
            path = (env.get("LD_LIBRARY_PATH"), *map(str, self.image.libraries))
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, path))
        return env

    def _value(self, source: Mapping[str, Any]) -> str | None:
        if "fieldRef" in source:
            fields = {
                "status.podIP": self.address,
                "status.podIPs": self.address,
                "status.hostIP": HOST_IP,
                "spec.nodeName": self.node.name,
                "metadata.name": self.name,
                "metadata.namespace": self.namespace,
            }
            return fields[source["fieldRef"]["fieldPath"]]
        for kind, where in (
            ("secretKeyRef", self.node.secrets),
            ("configMapKeyRef", self.node.config_maps),
        ):
            if kind in source:
                reference = source[kind]
                if reference.get("optional"):
                    return where.get(reference["name"], {}).get(reference["key"])
                return where[reference["name"]][reference["key"]]
        raise ValueError(f"an env source that the runner does not know: {sorted(source)}")

    def _mount(self, mount: Mapping[str, Any]) -> dict[str, Any]:
        volume = self._volumes[mount["name"]]
        out = {"path": mount["mountPath"], "read_only": mount.get("readOnly", False)}
        empty = volume.get("emptyDir")
        if empty is not None and empty.get("medium") == "Memory":
            number, unit = re.fullmatch(r"(\d+)(\w*)", empty.get("sizeLimit", "4Gi")).groups()
            return out | {"tmpfs": int(number) * _UNITS.get(unit, 1)}
        source = self._source(volume)
        place = source / mount.get("subPath", "")
        if not place.exists():  # as the kubelet: as root, with the mode of the volume's top
            place.mkdir(parents=True)
            place.chmod(source.stat().st_mode & 0o7777)
        return out | {"source": str(place)}

    def volume(self, name: str) -> Path:
        """The folder of one of its volumes: what the kubelet writes when a ConfigMap changes."""
        return self._source(self._volumes[name])

    def _source(self, volume: Mapping[str, Any]) -> Path:
        if "hostPath" in volume:
            path = volume["hostPath"]["path"]
            if path == "/dev/shm":
                return self.node.shared_memory()
            return self.node.volume("host", path)
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            return self._owned(self.node.volume("claim", claim))
        folder = Path(self._folder.name) / volume["name"]
        if not folder.exists():
            folder.mkdir()
            for file, text in self._files(volume).items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text)
                (folder / file).chmod(0o440 if self._group() is not None else 0o444)
            folder.chmod(0o777)  # emptyDir's mode
            self._owned(folder)
        return folder

    def _files(self, volume: Mapping[str, Any]) -> Mapping[str, str]:
        """The files of a volume that has content of its own: a Secret's or a ConfigMap's."""
        if "secret" in volume:
            source, content = volume["secret"], self.node.secrets[volume["secret"]["secretName"]]
        elif "configMap" in volume:
            source = volume["configMap"]
            content = self.node.config_maps[source["name"]]
        elif "emptyDir" in volume or "ephemeral" in volume:
            return {}
        else:
            raise ValueError(f"a volume that the runner does not know: {sorted(volume)}")
        if "items" in source:
            return {item["path"]: content[item["key"]] for item in source["items"]}
        return content

    def _group(self) -> int | None:
        return self.spec.get("securityContext", {}).get("fsGroup")

    def _owned(self, folder: Path) -> Path:
        """fsGroup as the kubelet applies it, to volumes that are the pod's own."""
        if self._group() is not None and self.node.can_change_user:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, -1, self._group())
            folder.chmod(folder.stat().st_mode | 0o2770)
        return folder

    # life

    @property
    def ready(self) -> bool:
        return all(container.ready for container in self._serving())

    def _serving(self) -> list[Container]:
        names = {spec["name"] for spec in self.spec["containers"]}
        return [container for name, container in self.containers.items() if name in names]

    def wait_ready(self, timeout: float) -> float:
        """Seconds until every container was ready by its own probes; PodFailed otherwise."""
        begun = time.monotonic()
        while not self.ready:
            waited = time.monotonic() - begun
            for container in self._serving():
                dead = not self._restart and (container.exit_codes or container.killed_by_probe)
                if dead or waited > timeout:
                    raise PodFailed(
                        f"{self.name}/{container.name} is not ready after {waited:.0f} s; exits "
                        f"{container.exit_codes}, killed {container.killed_by_probe}, last probe "
                        f"{container.last_failure}\n{container.log[-4000:]}"
                    )
            time.sleep(0.05)
        return time.monotonic() - begun

    def stop(self) -> dict[str, tuple[float, int]]:
        """Stop within the grace period: container -> seconds, exit code. TimeoutError beyond it."""
        grace = self.spec.get("terminationGracePeriodSeconds", 30)
        try:
            return {container.name: container.stop(grace) for container in self._serving()}
        finally:
            self.close()

    @property
    def process(self) -> int:
        """The process that holds the pod's network, for nsenter."""
        return self._holder.pid

    def close(self) -> None:
        """Remove the pod, by force if it still runs. Volumes of the node stay."""
        for container in self.containers.values():
            container.close()
        self._holder.kill()
        self._holder.wait()
        self._folder.cleanup()

    def __enter__(self) -> "Pod":
        return self

    def __exit__(self, *_: object) -> None:
        if self._holder.poll() is None:
            self.close()
