"""A platform whose kinds a package brings, as the people who run it see it."""

import copy
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.documents import API
from tests.cluster.expect import Fleet
from tests.cluster.rig import functions, packages
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, describe, is_true
from tests.cluster.rig.registry import Registry
from tests.tools.find import require

COMPOSITION_API = "apiextensions.crossplane.io/v1"
COMPOSITION = "modelreplicas.modelplane.ai"
COPY = f"{COMPOSITION}-kv-offload"


@dataclass
class Platform:
    """`definitions`: the XRDs and Compositions of the foreign package, which is called `name`.
    `kinds`: the composites that have our step.
    """

    world: Fleet
    registry: Registry
    folder: Path
    definitions: list[Manifest] = field(default_factory=list)
    name: str = "platform"
    kinds: str = "modelreplicas"

    def install(self, kind: str, name: str, version: str, file: Path) -> None:
        """Install or upgrade a package, and wait until it is in force."""
        image = self.registry.push(f"platform/{name}", version, file)
        document = packages.package(kind, name, image)
        self.world.api.apply(document)

        def healthy() -> bool:
            if kind == "Function":
                packages.serve(self.world.rig.control, name, self.world.rig.function_port)
            found = self.world.api.again(document)
            current = (found or {}).get("status", {}).get("currentIdentifier") == image
            return current and is_true(found, "Installed") and is_true(found, "Healthy")

        self.world.rig.until(
            healthy,
            f"{kind} {name} {version} is healthy",
            60,
            explain=lambda: describe(self.world.api, document),
        )

    def install_ours(self, *configurations: str) -> None:
        """Our packages, as `make packages` builds them: the Function and some Configurations."""
        make = ["make", "--silent", "packages"]
        subprocess.run(make, cwd=CHECKOUT, check=True, capture_output=True)
        built = CHECKOUT / "dist" / "packages"
        self.install("Function", functions.OURS, "v0.1.0", built / "kv-offload-function.xpkg")
        for name in configurations:
            file = built / f"kv-offload-{name}.xpkg"
            self.install("Configuration", f"kv-offload-{name}", "v0.1.0", file)

    def until_served(self, kind: str) -> None:
        """Wait until the API server serves a kind that a package defines."""
        self.world.rig.until(lambda: self.world.api.serves(API, kind), f"{kind} is served")

    def upgrade_platform(self, version: str) -> None:
        """Another version of the foreign package: its Composition differs in a label only."""
        documents = copy.deepcopy(self.definitions)
        for document in documents:
            document["metadata"]["labels"] = {"platform.example.org/version": version}
        file = packages.build(self.folder, self.name, documents, version)
        self.install("Configuration", self.name, version, file)

    def add_step(self, composition: str) -> None:
        """The step, added to a packaged Composition as the README says."""
        path = self.folder / "packaged.yaml"
        path.write_text(self.kubectl("get", "composition", composition, "-o", "yaml"))
        self.kubectl("apply", "-f", "-", given=self.tool("add-step", str(path)))

    def kubectl(self, *arguments: str, given: str = "") -> str:
        command = [str(require("kubectl")), "--kubeconfig", str(self.world.rig.control.kubeconfig)]
        return self._run([*command, *arguments], given)

    def tool(self, *arguments: str, given: str = "", code: int = 0) -> str:
        """`kv-offload`, as it is installed."""
        script = Path(sys.executable).parent / "kv-offload"
        return self._run([str(script), *arguments], given, code)

    def restart_core(self) -> None:
        """Core starts, and its package manager writes back what it has installed.

        It has when an edit of the packaged Composition is gone.
        """
        document = {
            "apiVersion": COMPOSITION_API,
            "kind": "Composition",
            "metadata": {"name": COMPOSITION},
        }
        annotations = {"metadata": {"annotations": {"example.org/edited": "yes"}}}
        self.world.api.patch(document, annotations)
        self.world.rig.core.part.restart()

        def restored() -> bool:
            found = self.world.api.again(document)
            return "example.org/edited" not in found["metadata"].get("annotations", {})

        self.world.rig.until(restored, "core restores what its packages hold", 60)

    def doctor(self, *, code: int = 0) -> str:
        """Return what doctor says once it ends with that code.

        Where core or the function has just been replaced, reconciles fail for some seconds.
        """
        said: list[str] = []

        def agreed() -> bool:
            try:
                said.append(self._doctor(code))
            except AssertionError as error:
                said.append(str(error))
                return False
            return True

        what = f"doctor ends with {code}"
        self.world.rig.until(agreed, what, 60, every=1, explain=lambda: said[-1])
        return said[-1]

    def _doctor(self, code: int) -> str:
        seen = self.kubectl(
            "get",
            "-A",
            "-o",
            "yaml",
            f"{self.kinds},compositions,compositionrevisions,xrd,functions.pkg.crossplane.io,"
            "mutatingadmissionpolicies,mutatingadmissionpolicybindings",
        )
        return self.tool("doctor", "-", given=seen, code=code)

    def _run(self, command: list[str], given: str, code: int = 0) -> str:
        path = f"{require('kubectl').parent}{os.pathsep}{os.environ['PATH']}"
        there = os.environ | {"PATH": path, "KUBECONFIG": str(self.world.rig.control.kubeconfig)}
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, env=there
        )
        assert done.returncode == code, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout
