"""Three versions in a registry on the loopback address, as `make release` makes and pushes them."""

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.rig import packages, provider
from tests.cluster.rig.kube import load
from tests.release.made import CRASHES, Keys, commit, make
from tests.tools.find import module_dir
from tools.release import image
from tools.release.image import tool

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@dataclass(frozen=True)
class Released:
    """`made`: the folder of each version; `commit`: of the first."""

    commit: str
    registry: str
    keys: Keys
    made: dict[str, Path]


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Released]:
    folder = tmp_path_factory.mktemp("release")
    keys = Keys(folder / "keys").make()
    with image.registry(folder / "registry") as address:
        registry = f"{address}/team"
        pushed = {
            "PUSH": "1",
            "KEY": str(keys.private),
            "PROVIDER": _provider_package(folder, address),
            # Debian's and PyPI's files are fetched for the first.
            "more": f"--platforms {ARCH} --work {folder / 'work'}",
        }
        versions = (("0.1.0", {}), ("0.2.0", {}), ("0.3.0", CRASHES))
        commits = {version: commit(version, edits) for version, edits in versions}
        made = {
            f"v{version}": make(each, version, registry, folder / version, **pushed)
            for version, each in commits.items()
        }
        yield Released(commits["0.1.0"], registry, keys, made)


def _provider_package(folder: Path, address: str) -> str:
    """provider-kubernetes' kinds as a package; its address without the tag."""
    origin = module_dir("provider-kubernetes", provider.MODULE) / "package"
    (meta,) = load(origin / "crossplane.yaml")
    meta["spec"] = {}
    crds = [d for f in sorted((origin / "crds").glob("kubernetes.m.*.yaml")) for d in load(f)]
    file = packages.build(folder, "provider-kubernetes", crds, "v1.2.1", meta)
    reference = f"{address}/provider-kubernetes"
    tool("crossplane", "xpkg", "push", f"--package-files={file}", f"{reference}:v1.2.1")
    return reference
