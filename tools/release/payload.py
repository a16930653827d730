"""`make payload`: the image of the packages that tiers bring into engines (spec.payload).

It is made as the function's own image is: wheels by version and hash, no builder, and of one commit
the same digests. It has no default place: nobody publishes it.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from tools.release import image
from tools.release.__main__ import checkout
from tools.release.image import tool

PACKAGE = Path("package", "payload")
PROGRAM = "program"


def parts(source: Path) -> list[str]:
    """Return the names of the packages, in the order of their layers."""
    return sorted(file.stem for file in (source / PACKAGE).glob("*.txt"))


def files(source: Path, out: Path, arch: str, epoch: int) -> list[Path]:
    """Write the files of one architecture; the folder of each layer."""
    image.files(source, out, arch, epoch)
    packages = out / "payload"
    steps = [source / PACKAGE / "steps.sh", source, packages, arch]
    subprocess.run(list(map(str, steps)), check=True)
    return [out / "base", *(packages / name for name in (*parts(source), PROGRAM))]


def build(source: Path, out: Path, arch: str, epoch: int, reference: str) -> None:
    """Push the image of one architecture."""
    folders = files(source, out, arch, epoch)
    layers = [image.layer(each, out / f"{each.name}.tar", epoch) for each in folders]
    tool("crane", "append", *(f"--new_layer={each}" for each in layers), f"--new_tag={reference}")
    flags = [*image.configuration(source / PACKAGE / "Dockerfile"), f"--set-platform=linux/{arch}"]
    tool("crane", "mutate", reference, *flags, f"--tag={reference}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="payload", description=__doc__)
    parser.add_argument("--tag", required=True, help="REGISTRY/PATH:TAG, which is pushed")
    parser.add_argument("--platforms", default="amd64,arm64")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--work", type=Path, help="keep Debian's and PyPI's files here for another")
    given = parser.parse_args()
    platforms = given.platforms.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        source, _, epoch = checkout(given.commit, Path(scratch, "source"))
        for arch in platforms:
            made = image.reusable(given.work or Path(scratch), source, arch)
            build(source, made, arch, epoch, f"{given.tag}-{arch}")
        manifests = [f"--manifest={given.tag}-{arch}" for arch in platforms]
        tool("crane", "index", "append", *manifests, f"--tag={given.tag}")
    print(f"{given.tag.rpartition(':')[0]}@{tool('crane', 'digest', given.tag)}")


if __name__ == "__main__":
    main()
