"""What the packages hold, and the manifests that install them."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

_PKG = "pkg.crossplane.io/v1"
_FUNCTION = "function-kv-offload"
_KIND, _TIER, _STANDALONE = (
    f"configuration-kv-offload-{name}" for name in ("kind", "tier", "standalone")
)
# The standalone Configuration brings everything; the tier's brings no kind of its own.
_DEPENDS = {_KIND: (), _TIER: (_FUNCTION,), _STANDALONE: (_FUNCTION, _KIND, _TIER)}
REPOSITORIES = (_FUNCTION, *_DEPENDS)
MEMORY = "512Mi"


@dataclass(frozen=True)
class Names:
    """Where the packages of one version are, and what they are called on a control plane.

    Crossplane names a package that another depends on after its path. All have that name from the
    start, or it would install them twice.
    """

    registry: str
    version: str
    provider: str
    revision: str = ""
    digests: dict[str, str] = field(default_factory=dict)

    def installed(self, repository: str) -> str:
        """Return crossplane-runtime's ToDNSLabel of a repository's path."""
        path = self.registry.partition("/")[2]
        label = f"{path}/{repository}" if path else repository
        return "".join("-" if c in "./:-" else c for c in label if c.isalnum() or c in "./:-")[
            :63
        ].strip("-")

    @property
    def function(self) -> str:
        return self.installed(_FUNCTION)

    @property
    def labels(self) -> dict[str, str]:
        prefix = "org.opencontainers.image"
        return {
            f"{prefix}.title": _FUNCTION,
            f"{prefix}.version": self.version,
            f"{prefix}.revision": self.revision,
            f"{prefix}.licenses": "Apache-2.0",
        }

    def package(self, kind: str, repository: str) -> Document:
        return {
            "apiVersion": _PKG,
            "kind": kind,
            "metadata": {
                "name": self.installed(repository),
                "labels": {"app.kubernetes.io/version": self.version},
            },
            # No tag before the digest: Crossplane would not find the package as a dependency.
            "spec": {"package": f"{self.registry}/{repository}@{self.digests[repository]}"},
        }

    def dependencies(self, name: str) -> list[Document]:
        """Return the `dependsOn` of a Configuration: ours by digest, made before it."""
        found = [
            {
                "apiVersion": _PKG,
                "kind": "Function" if each == _FUNCTION else "Configuration",
                "package": f"{self.registry}/{each}",
                "version": self.digests[each],
            }
            for each in _DEPENDS[name]
        ]
        provider = {"kind": "Provider", "package": self.provider, "version": ">=v1.2.0"}
        return [*found, {"apiVersion": _PKG, **provider}] if found else []


def write_root(source: Path, folder: Path, names: Names, name: str) -> Path:
    """Write the folder of a package, as `crossplane xpkg build` takes it."""
    origin = name.replace("-kv-offload", "") if name in _DEPENDS else ""
    depends = names.dependencies(name) if name in _DEPENDS else None
    _meta(source / "package" / origin / "crossplane.yaml", folder, names, depends)
    if name == _FUNCTION:
        shutil.copytree(source / "package" / "input", folder / "input")
    elif name == _KIND:
        shutil.copy(source / "xrd" / "kvoffloadtier.yaml", folder / "definition.yaml")
    elif name == _TIER:
        _composition(source / "compositions" / "kvoffloadtier.yaml", folder, names)
    else:
        for file in sorted((source / "xrd" / "standalone").glob("*.yaml")):
            shutil.copy(file, folder / f"{file.stem}-definition.yaml")
        for file in sorted((source / "compositions" / "standalone").glob("*.yaml")):
            _composition(file, folder, names)
    return folder


def _meta(origin: Path, folder: Path, names: Names, depends: list[Document] | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = yaml.safe_load(origin.read_text())
    document["metadata"]["annotations"]["meta.crossplane.io/version"] = names.version
    if depends:
        document["spec"]["dependsOn"] = depends
    (folder / "crossplane.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def _composition(origin: Path, folder: Path, names: Names) -> None:
    """Copy a Composition; it calls the function by the name that the package manager gives."""
    document = yaml.safe_load(origin.read_text())
    for step in document["spec"]["pipeline"]:
        step["functionRef"]["name"] = names.function
    (folder / f"{origin.stem}-composition.yaml").write_text(
        yaml.safe_dump(document, sort_keys=False)
    )


def install(source: Path, names: Names) -> dict[str, Iterable[Document]]:
    """Return the files for `kubectl apply`: ours, the standalone kinds, a workload cluster's."""
    function = names.package("Function", _FUNCTION)
    function["spec"]["runtimeConfigRef"] = {"name": names.function}
    rbac = source / "package" / "rbac"
    role, remote = (
        yaml.safe_load((rbac / name).read_text())
        for name in ("clusterrole.yaml", "workload-cluster.yaml")
    )
    configurations = [names.package("Configuration", each) for each in (_KIND, _TIER)]
    standalone = names.package("Configuration", _STANDALONE)
    return {
        "install.yaml": [role, _runtime(names), _budget(names), function, *configurations],
        "standalone.yaml": [standalone],
        "workload-cluster.yaml": [remote],
    }


def _runtime(names: Names) -> Document:
    """Two replicas on different nodes; `make image-test` holds the image to these limits."""
    container = {
        "name": "package-runtime",
        "resources": {
            "requests": {"cpu": "100m", "memory": MEMORY},
            "limits": {"memory": MEMORY},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "readinessProbe": {"tcpSocket": {"port": 9443}},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"pkg.crossplane.io/function": names.function}},
    }
    pod = {"topologySpreadConstraints": [spread], "containers": [container]}
    return {
        "apiVersion": "pkg.crossplane.io/v1beta1",
        "kind": "DeploymentRuntimeConfig",
        "metadata": {"name": names.function},
        "spec": {
            "deploymentTemplate": {
                "spec": {"replicas": 2, "selector": {}, "template": {"spec": pod}},
            }
        },
    }


def _budget(names: Names) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": names.function, "namespace": "crossplane-system"},
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {"pkg.crossplane.io/function": names.function}},
        },
    }
