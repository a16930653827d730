"""The bill of materials (CycloneDX) of a package with an image, read from the file itself."""

import io
import json
import re
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_DEBIAN = re.compile(r"(?:\./)?var/lib/dpkg/status\.d/[^/]+")
_PYTHON = re.compile(r"(?:\./)?usr/lib/python3/dist-packages/[^/]+\.dist-info/METADATA")


def bill(file: Path, name: str, version: str, epoch: int) -> str:
    """Return the SBOM of a package file; the same file gives the same text."""
    image = Component(type=ComponentType.CONTAINER, name=name, version=version, bom_ref=name)
    found = sorted(_components(file))
    document = Bom(components=found, serial_number=uuid5(NAMESPACE_URL, f"{name}@{version}"))
    document.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    document.metadata.component = image
    document.register_dependency(image, found)
    made = JsonV1Dot6(document).output_as_string()
    return json.dumps(json.loads(made), indent=1, sort_keys=True) + "\n"


def _components(file: Path) -> Iterator[Component]:
    for path, text in _described(file):
        fields = HeaderParser().parsestr(text)
        if _DEBIAN.fullmatch(path):
            name, version, arch = (fields[key] for key in ("Package", "Version", "Architecture"))
            where = {"arch": arch, "distro": "debian-13"}
            url = PackageURL("deb", "debian", name, version, where)
            licenses = []
        else:
            name, version = fields["Name"].lower().replace("_", "-"), fields["Version"]
            url = PackageURL("pypi", None, name, version)
            declared = fields["License-Expression"]
            licenses = [LicenseFactory().make_with_expression(declared)] if declared else []
        yield Component(
            type=ComponentType.LIBRARY,
            name=name,
            version=version,
            purl=url,
            licenses=licenses,
            bom_ref=str(url),
        )


def _described(file: Path) -> Iterator[tuple[str, str]]:
    """Yield path and text of what says that a package of Debian or of Python is in a layer."""
    with tarfile.open(file) as package:
        (manifest,) = json.load(_open(package, "manifest.json"))
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=_open(package, name)) as layer:
                for member in layer:
                    if _DEBIAN.fullmatch(member.name) or _PYTHON.fullmatch(member.name):
                        yield member.name, _open(layer, member).read().decode()


def _open(archive: tarfile.TarFile, member: str | tarfile.TarInfo) -> io.BufferedIOBase:
    found = archive.extractfile(member)
    if found is None:
        raise ValueError(f"{member} is no file of {archive.name!r}")
    return found
