"""`make release`: image, packages, wheel, SBOM and signatures of one commit, in dist/release.

The same commit gives the same digests while Debian's archive gives the same packages.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.release import image, manifests
from tools.release.image import tool

ROOT = Path(__file__).resolve().parents[2]
SUMS = "SHA256SUMS"


def main() -> None:
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("--version", required=True, help="v and the version of pyproject.toml")
    parser.add_argument("--registry", required=True, help="host, port and path of the packages")
    parser.add_argument("--provider", help="provider-kubernetes; default: in the same registry")
    parser.add_argument("--platforms", default="amd64,arm64")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "release")
    parser.add_argument("--push", action="store_true", help="push the packages, and sign them")
    parser.add_argument("--key", type=Path, help="cosign's private key")
    given = parser.parse_args()
    provider = given.provider or f"{given.registry}/provider-kubernetes"
    if given.out.exists() and any(given.out.iterdir()) and not (given.out / SUMS).exists():
        parser.error(f"--out {given.out}: it holds something that is no release")
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        source, revision, epoch = checkout(given.commit, Path(scratch) / "source")
        check_version(source, given.version)
        platforms = given.platforms.split(",")
        names = manifests.Names(given.registry, given.version, provider, revision)
        for arch, file in packages(source, Path(scratch), given.out, epoch, platforms, names):
            (given.out / f"function-kv-offload-{arch}.cdx.json").write_text(bill(file, names))
    digests = push(given.out, names, given.registry if given.push else None)
    (given.out / "DIGESTS").write_text("".join(f"{d}  {ref}\n" for ref, d in digests.items()))
    seal(given.out, given.key)
    if given.push and given.key:
        for reference, digest in digests.items():
            sign(f"{reference.rpartition(':')[0]}@{digest}", given.key)
    print((given.out / "DIGESTS").read_text(), end="")


def checkout(commit: str, folder: Path) -> tuple[Path, str, int]:
    """Unpack a commit; its folder, its hash and its time."""
    folder.mkdir()
    git = ["git", "-C", str(ROOT)]
    archive = subprocess.run([*git, "archive", commit], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    show = [*git, "show", "--no-patch", "--format=%H %ct", f"{commit}^{{commit}}"]
    revision, epoch = subprocess.run(
        show, capture_output=True, text=True, check=True
    ).stdout.split()
    return folder, revision, int(epoch)


def check_version(source: Path, version: str) -> None:
    """Exit unless the commit has this version: pyproject.toml is the one place."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    if version != f"v{project['version']}":
        sys.exit(f"release: pyproject.toml has {project['version']}, VERSION is {version}")


def packages(
    source: Path,
    scratch: Path,
    out: Path,
    epoch: int,
    platforms: list[str],
    names: manifests.Names,
) -> list[tuple[str, Path]]:
    """Write packages, wheel and manifests to `out`; the image of each architecture."""
    images = []
    roots = manifests.write_roots(source, scratch / "roots", names)
    for arch in platforms:
        made = scratch / arch
        file = image.build(source, made, arch, epoch, names.labels)
        target = out / f"function-kv-offload-{arch}.xpkg"
        xpkg(roots / manifests.REPOSITORIES[0], target, f"--embed-runtime-image-tarball={file}")
        images.append((arch, file))
        shutil.copy(next((made / "wheel").glob("*.whl")), out)
    for name in manifests.REPOSITORIES[1:]:
        xpkg(roots / name, out / f"{name}.xpkg")
    for name, documents in manifests.install(source, names).items():
        (out / name).write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return images


def xpkg(root: Path, file: Path, *more: str) -> None:
    tool("crossplane", "xpkg", "build", f"--package-root={root}", f"--package-file={file}", *more)


def bill(file: Path, names: manifests.Names) -> str:
    """Return the SBOM of an image, without the time and the serial number of its making."""
    made = tool("syft", "scan", f"docker-archive:{file}", "--output=cyclonedx-json", "--quiet")
    document: dict[str, Any] = json.loads(made)
    document.pop("serialNumber", None)
    document["metadata"].pop("timestamp", None)
    document["metadata"]["component"] |= {"name": names.function, "version": names.version}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def push(out: Path, names: manifests.Names, registry: str | None) -> dict[str, str]:
    """Push to the registry, or to one that lasts as long as this; the digest of each reference."""
    with tempfile.TemporaryDirectory() as scratch, image.registry(Path(scratch)) as loopback:
        found = {}
        for name in manifests.REPOSITORIES:
            files = ",".join(map(str, sorted(out.glob(f"{name}*.xpkg"))))
            reference = f"{registry or loopback}/{name}:{names.version}"
            tool("crossplane", "xpkg", "push", f"--package-files={files}", reference)
            found[f"{names.registry}/{name}:{names.version}"] = tool("crane", "digest", reference)
    return found


def seal(out: Path, key: Path | None) -> None:
    """Write SHA256SUMS over all files, and sign it if there is a key."""
    files = sorted(path for path in out.iterdir() if path.is_file())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / SUMS).write_text("".join(sums))
    if key:
        bundle = f"--bundle={out / SUMS}.sigstore.json"
        cosign("sign-blob", f"--key={key}", bundle, out / SUMS)
        (out / "cosign.pub").write_text(cosign("public-key", f"--key={key}") + "\n")


def sign(reference: str, key: Path) -> None:
    cosign("sign", f"--key={key}", reference)


# No public log: the key is what a verifier trusts.
_OFFLINE = {"sign": ("--tlog-upload=false", "--use-signing-config=false", "--yes")}


def cosign(verb: str, *arguments: str | Path) -> str:
    flags = _OFFLINE.get(verb.removesuffix("-blob"), ())
    environment: Mapping[str, str] = {"COSIGN_PASSWORD": ""} | dict(os.environ)
    return tool("cosign", verb, *flags, *arguments, env=environment)


if __name__ == "__main__":
    main()
