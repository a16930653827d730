"""`make verify-release`: check signature, hashes and SBOM of a release's files.

With --pulled also that the registry has these packages, each with a signature.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from tools.release import bill, signing
from tools.release.__main__ import PUBLIC, ROOT, SIGNATURE, SUMS
from tools.release.image import tool
from tools.release.signing import Invalid


def main() -> None:
    parser = argparse.ArgumentParser(prog="verify", description=__doc__)
    parser.add_argument("--public", type=Path, required=True, help="the key that you trust, in PEM")
    parser.add_argument("--release", type=Path, default=ROOT / "dist" / "release")
    parser.add_argument("--pulled", action="store_true", help="check the registry's packages too")
    given = parser.parse_args()
    try:
        key = signing.public_key(given.public)
        count = files(given.release, key)
        if given.pulled:
            pulled(given.release, key)
    except (Invalid, OSError, subprocess.CalledProcessError) as wrong:
        sys.exit(f"verify: {wrong}")
    registry = "; the registry's packages and signatures too" if given.pulled else ""
    print(f"{count} files: signature, hashes and SBOM are right{registry}")


def files(folder: Path, key: signing.PublicKey) -> int:
    """Raise Invalid unless every file is signed for; how many there are."""
    sums = (folder / SUMS).read_bytes()
    signing.check(key, sums, (folder / SIGNATURE).read_text(), SUMS)
    listed = dict(line.split("  ", 1)[::-1] for line in sums.decode().splitlines())
    there = {path.name for path in folder.iterdir()} - {SUMS, SIGNATURE, PUBLIC}
    if there != set(listed):
        raise Invalid(f"{sorted(there ^ set(listed))}: in {SUMS} or in the folder, but not in both")
    for name, digest in listed.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise Invalid(f"{name}: its bytes are not those that were signed")
    packages = sorted(folder.glob("function-*.xpkg"))
    if not packages:
        raise Invalid(f"{folder}: no package of the function")
    for package in packages:
        contents(package, package.with_suffix(".cdx.json"))
    return len(listed)


def contents(package: Path, listed: Path) -> None:
    """Raise Invalid unless the SBOM lists what is in the package."""
    text = listed.read_text()
    about = json.loads(text)["metadata"]
    epoch = int(datetime.fromisoformat(about["timestamp"]).timestamp())
    component = about["component"]
    if bill.bill(package, component["name"], component["version"], epoch) != text:
        raise Invalid(f"{listed.name}: it does not list what is in {package.name}")


def pulled(folder: Path, key: signing.PublicKey) -> None:
    """Raise Invalid unless the registry has each package, and its signature."""
    for line in (folder / "DIGESTS").read_text().splitlines():
        digest, reference = line.split()
        found = tool("crane", "digest", reference)
        if found != digest:
            raise Invalid(f"{reference}: the registry has {found}, the release {digest}")
        signing.check_image(key, reference.rpartition(":")[0], digest)


if __name__ == "__main__":
    main()
