"""A control plane on which a release is installed, and what it shows of that."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.cluster.expect import Fleet
from tests.cluster.rig import packages
from tests.cluster.rig.kube import Manifest, describe, is_true
from tests.release.kubelet import Kubelet
from tests.tools.find import require

# How many packages of each kind a release brings, with provider-kubernetes.
PACKAGES = {"Function": 1, "Configuration": 3, "Provider": 1}


@dataclass
class Control:
    """A control plane, what installs on it, and who runs the function."""

    world: Fleet
    kubelet: Kubelet
    releases: dict[str, Path]

    def kubectl(self, *arguments: str) -> str:
        config = str(self.world.rig.control.kubeconfig)
        command = [str(require("kubectl")), "--kubeconfig", config, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def files(self, version: str) -> list[str]:
        out = self.releases[version]
        return [f"--filename={out / name}" for name in ("install.yaml", "standalone.yaml")]

    def packages(self, version: str) -> list[str]:
        """The addresses of our packages of a version, by digest."""
        lines = (self.releases[version] / "DIGESTS").read_text().splitlines()
        found = [line.split() for line in lines]
        return sorted(f"{name.rpartition(':')[0]}@{digest}" for digest, name in found)

    def installed(self, kind: str) -> list[Manifest]:
        return self.world.api.list(packages.API, kind)

    def install(self, version: str) -> None:
        """Apply a release and wait for its packages."""
        self.kubectl("apply", *self.files(version))
        self.settle(version)

    def settle(self, version: str) -> None:
        """Wait for the packages of a release."""

        def healthy() -> bool:
            self.kubelet.tend()
            run_provider(self.world)
            found = {kind: self.installed(kind) for kind in PACKAGES}
            ours = [p for kind in ("Function", "Configuration") for p in found[kind]]
            every = [p for items in found.values() for p in items]
            counts = {kind: len(items) for kind, items in found.items()}
            current = [p.get("status", {}).get("currentIdentifier", "") for p in ours]
            return (
                counts == PACKAGES
                and sorted(current) == self.packages(version)
                and all(is_true(p, c) for p in every for c in ("Installed", "Healthy"))
            )

        everything = [p for kind in PACKAGES for p in self.installed(kind)]
        self.world.rig.until(
            healthy,
            f"everything of {version} is healthy",
            120,
            every=1,
            explain=lambda: "\n".join(describe(self.world.api, p) for p in everything),
        )

    def left(self) -> list[str]:
        """What the packages brought, and they themselves, as far as they exist."""
        definitions = "apiextensions.crossplane.io"
        kinds = [
            (f"{definitions}/v2", "CompositeResourceDefinition"),
            (f"{definitions}/v1", "Composition"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            (packages.API, "Function"),
            (packages.API, "FunctionRevision"),
            (packages.API, "Configuration"),
            (packages.API, "ConfigurationRevision"),
        ]
        found = [each for kind in kinds for each in self.world.api.list(*kind)]
        ours = [
            each
            for each in found
            if each["kind"] != "CustomResourceDefinition"
            or each["spec"]["group"] in ("modelplane.ai", "kvoffload.fn.modelplane.ai")
        ]
        return [f"{e['kind']} {e['metadata']['name']} {e['metadata']}" for e in ours]

    def version(self) -> str:
        """The version that the answering process reports."""
        page = httpx.get(f"http://127.0.0.1:{self.kubelet.metrics_port()}/metrics").text
        (line,) = (row for row in page.splitlines() if "build_info{" in row)
        return line.split('"')[1]

    def calls(self) -> float:
        page = httpx.get(f"http://127.0.0.1:{self.kubelet.metrics_port()}/metrics").text
        rows = [row for row in page.splitlines() if row.startswith("function_kv_offload_calls_t")]
        return sum(float(row.split()[-1]) for row in rows)


def run_provider(world: Fleet) -> None:
    """The rig runs the provider itself: say so for the package's revision."""
    for revision in world.api.list(packages.API, "ProviderRevision"):
        if not is_true(revision, "RuntimeHealthy"):
            packages.say_running(world.rig.control, revision, {})
