"""The whole rig: one control plane, several workload clusters, and what runs between them."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.rig import crossplane, functions, lws, provider, rbac, rundir
from tests.cluster.rig.apiserver import (
    CONTROL_PLANE_CONTROLLERS,
    Cluster,
    User,
    cluster,
    controller_manager,
    etcd,
    scheduler,
)
from tests.cluster.rig.certs import Authority
from tests.cluster.rig.kube import Manifest, describe, is_true, load
from tests.cluster.rig.nodes import kwok
from tests.cluster.rig.ports import free_ports
from tests.cluster.rig.processes import Part, Supervisor
from tests.cluster.rig.wait import until

CORE_USER = User(
    "system:serviceaccount:crossplane-system:crossplane",
    ("system:serviceaccounts", "system:serviceaccounts:crossplane-system", "system:authenticated"),
)

PROVIDER_USER = User("provider-kubernetes")


@dataclass
class Rig:
    """A running rig. Use it as a context manager: leaving it stops everything.

    `workloads` are the names of the workload clusters, `run` the folder that the rig lives in.
    With `authorization` "RBAC" core runs as its service account, and the provider as a user of the
    workload clusters; both have the rights that are granted to them, nothing more. Without
    `registers` our function runs, and core is not told of it: a package will (packages.py).
    `core_environment`, `function_flags`: more of core's, of our function's. `audited`: the control
    plane logs who writes what.
    """

    run: Path
    workloads: tuple[str, ...] = ("gke-h200", "eks-h200")
    authorization: str = "AlwaysAllow"
    core_flags: tuple[str, ...] = ()
    core_environment: Mapping[str, str] = field(default_factory=dict)
    with_lws: bool = True
    registers: bool = True
    function_flags: tuple[str, ...] = ()
    audited: bool = False
    parts: Supervisor = field(default_factory=Supervisor)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    function_port: int = 0
    seconds_to_start: float = 0
    failed: bool = False

    def __enter__(self) -> "Rig":
        rundir.take(self.run)
        try:
            self._start()
        except BaseException:
            self.failed = True
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Ctrl-C is how a person says that all is well and over.
        self.failed = self.failed or (kind is not None and kind is not KeyboardInterrupt)
        self.stop()

    @property
    def control(self) -> Cluster:
        return self.clusters["control"]

    def workload(self, name: str) -> Cluster:
        return self.clusters[name]

    def stop(self) -> None:
        """Stop every part and remove the run folder (all but the logs, if something failed)."""
        self.parts.stop()
        for each in self.clusters.values():
            each.api.close()
        rundir.give_up(self.run, keep_logs=self.failed)

    def until(self, probe: Callable, what: str, limit: float = 30, **more):
        """Wait, and meanwhile start again whatever dies."""
        return until(probe, what, limit, meanwhile=self.parts.tend, **more)

    def launch_function(self, name: str, command: list[str], *flags: str) -> Part:
        """Start a function beside ours and make it known to core under its name."""
        (port,) = free_ports(1)
        part = functions.function(name, command, port, self.run, self.authority, *flags)
        self.parts.launch(part)
        crossplane.register_function(self.control.api, name, port)
        return part

    def install_package(self, *folders: Path) -> None:
        """Apply XRDs, then Compositions, of some folders, and wait until core serves them."""
        documents = [d for folder in folders for f in _yaml_files(folder) for d in load(f)]
        xrds = [d for d in documents if d["kind"] == "CompositeResourceDefinition"]
        for xrd in xrds:
            self.control.api.apply(xrd)
        for xrd in xrds:
            self.until(
                lambda x=xrd: is_true(self.control.api.again(x), "Established"),
                f"XRD {xrd['metadata']['name']} is Established",
                explain=lambda x=xrd: describe(self.control.api, x),
            )
        for document in documents:
            if document["kind"] == "Composition":
                self.control.api.apply(document)

    @contextlib.contextmanager
    def more_workloads(self, *names: str) -> Iterator[None]:
        """Run more workload clusters for a while, without LeaderWorkerSets and without nodes."""
        before = set(self.parts.parts)
        try:
            self._start_apiservers(names)
            for name in names:
                self._start_workload(self.clusters[name], with_lws=False)
            yield
        finally:
            self.parts.drop(self.parts.parts.keys() - before)
            for name in names:
                self.clusters.pop(name).api.close()

    def _start(self) -> None:
        began = time.monotonic()
        self.authority = Authority.new()
        self.store = etcd(self.run)
        self.parts.launch(self.store.part)
        self._start_apiservers(("control", *self.workloads))
        self._start_control_plane()
        for name in self.workloads:
            self._start_workload(self.clusters[name], with_lws=self.with_lws)
        self._start_function()
        self.seconds_to_start = time.monotonic() - began

    def _start_apiservers(self, names: Iterable[str]) -> None:
        mode, url = self.authorization, self.store.url
        theirs = {"provider": PROVIDER_USER} if mode == "RBAC" else {}
        started = []
        for name in names:
            is_control = name == "control"
            users = {"core": CORE_USER} if is_control else theirs
            audited = is_control and self.audited
            each = cluster(name, self.run, url, self.authority, mode, users, audited)
            self.clusters[name] = each
            started.append(each)
        self.parts.launch(*(each.part for each in started))
        for each in started:
            each.api.meanwhile = self.parts.tend

    def _start_control_plane(self) -> None:
        control = self.control
        crossplane.install(control.api)
        provider.install(control.api)
        as_core = None
        if self.authorization == "RBAC":
            rbac.grant(control.api, CORE_USER.name)
            as_core = control.kubeconfig_of("core")
        self.core = crossplane.core(
            self.run,
            control,
            self.authority,
            *self.core_flags,
            kubeconfig=as_core,
            environment=self.core_environment,
        )
        self.parts.launch(
            controller_manager(self.run, control, CONTROL_PLANE_CONTROLLERS),
            self.core.part,
            provider.provider(self.run, control, self.authority),
        )
        crossplane.install_usage_webhook(control, self.core.webhook_port)
        for name in self.workloads:
            for document in provider.provider_config(self.clusters[name]):
                control.api.apply(document)

    def _start_workload(self, target: Cluster, *, with_lws: bool) -> None:
        if self.authorization == "RBAC":
            rbac.grant_provider(target.api, PROVIDER_USER.name)
        starting = [
            controller_manager(self.run, target),
            scheduler(self.run, target),
            kwok(self.run, target),
        ]
        if with_lws:
            lws.install(target.api)
            gangs, port = lws.controller(self.run, target, self.authority)
            starting.append(gangs)
        self.parts.launch(*starting)
        if with_lws:
            lws.install_webhooks(target, port)

    def _start_function(self) -> None:
        (self.function_port,) = free_ports(1)
        self.parts.launch(self.function_part(functions.OURS, self.function_port))
        if self.registers:
            crossplane.register_function(self.control.api, functions.OURS, self.function_port)

    def function_part(self, name: str, port: int) -> Part:
        """Our function, not started yet."""
        command = functions.command_of_ours()
        flags = self.function_flags
        return functions.function(name, command, port, self.run, self.authority, *flags)

    def apply_nodes(self, target: Cluster, nodes: list[Manifest], limit: float = 30) -> None:
        """Create simulated nodes and wait until their kubelet (kwok) says they are Ready."""
        for node in nodes:
            status = node.pop("status")
            target.api.apply(node)
            target.api.patch(node, {"status": status}, "status")
        for node in nodes:
            name = node["metadata"]["name"]
            self.until(
                lambda n=name: is_true(target.api.get("v1", "Node", n), "Ready"),
                f"node {name} of {target.name} is Ready",
                limit,
            )


def _yaml_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml")) if folder.is_dir() else [folder]
