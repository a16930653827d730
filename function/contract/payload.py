"""The packages that a tier's payload image brings in place of another release in an engine's image.

The rows are in function/facts/payloads.yaml. A wheel needs the Python, CUDA and torch that it is
built for, and the dependencies of the release that it replaces: an image without any may lack them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import Version

from function.contract.engine import Engine
from function.contract.versions import within
from function.facts import Table

_BUILT_FOR = ("python", "cuda", "torch")


@dataclass(frozen=True)
class PayloadPackage:
    """One package of the payload image.

    `cuda`: its major number. `torch`: "" where it links none. `replaces`: the releases in an
    engine's image whose dependencies it can use. `mib`: of its files.
    """

    package: str
    version: str
    distribution: str
    python: str
    cuda: str
    replaces: str
    mib: int
    source: str
    torch: str = ""

    @property
    def name(self) -> str:
        """The name of its folder, e.g. lmcache-0.5.6-python3.12-cuda13-torch2.13.0."""
        built_for = (f"{name}{self._built(name)}" for name in _BUILT_FOR if self._built(name))
        return "-".join((self.package, self.version, *built_for))

    def misfits(self, engine: Engine) -> dict[str, str]:
        """Return the PEP 440 ranges that it needs of an engine's image, and that are not met."""
        built_for = {name: self._built(name) for name in _BUILT_FOR if self._built(name)}
        needs = {n: f"=={v}{'' if n == 'torch' else '.*'}" for n, v in built_for.items()}
        needs[self.package] = self.replaces
        return {n: spec for n, spec in needs.items() if not engine.package(n).within(spec)}

    def _built(self, name: str) -> str:
        return str(getattr(self, name))


PAYLOADS = Table(PayloadPackage, "payloads", "payloads")


def candidates(package: str, fits: str) -> Sequence[PayloadPackage]:
    """Return the rows with a version of the package in a PEP 440 range."""
    return [
        row for row in PAYLOADS if row.package == package and within(Version(row.version), fits)
    ]


def fitting(package: str, fits: str, engine: Engine) -> PayloadPackage | None:
    """Return the row that works in an engine's image; None without one."""
    return next((row for row in candidates(package, fits) if not row.misfits(engine)), None)
