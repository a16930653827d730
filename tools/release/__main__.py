"""`make release`: image, packages, wheel, SBOM and signatures of one commit, in dist/release.

The same commit gives the same digests while Debian's archive gives the same packages.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import yaml

from tools.release import bill, image, manifests, signing
from tools.release.image import tool

ROOT = Path(__file__).resolve().parents[2]
SUMS, SIGNATURE, PUBLIC = "SHA256SUMS", "SHA256SUMS.sig", "release.pub"
SECRET = ("KEY", "KEY_PASSWORD", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "RELEASE_ARGS")


def main() -> None:
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("--version", required=True, help="v and the version of pyproject.toml")
    parser.add_argument("--registry", required=True, help="host, port and path of the packages")
    parser.add_argument("--provider", help="provider-kubernetes; default: in the same registry")
    parser.add_argument("--platforms", default="amd64,arm64")
    parser.add_argument("--commit", help="default: HEAD, with nothing uncommitted")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "release")
    parser.add_argument("--work", type=Path, help="keep Debian's and PyPI's files here for another")
    parser.add_argument("--push", action="store_true", help="push the packages, and sign them")
    parser.add_argument("--key", type=Path, help="private key in PEM, P-256; KEY_PASSWORD: its own")
    given = parser.parse_args()
    try:
        key = given.key and signing.private_key(given.key)
    except (signing.Invalid, OSError) as wrong:
        parser.error(f"--key: {wrong}")
    # Build tools run as root and run downloaded code. Make repeats its variables in its flags.
    for name in SECRET:
        os.environ.pop(name, None)
    provider = given.provider or f"{given.registry}/provider-kubernetes"
    if given.out.exists() and any(given.out.iterdir()) and not (given.out / SUMS).exists():
        parser.error(f"--out {given.out}: it holds something that is no release")
    if not given.commit and subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT).returncode:
        parser.error("commit first: a release is made of HEAD")
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        source, revision, epoch = checkout(given.commit or "HEAD", Path(scratch) / "source")
        check_version(source, given.version)
        names = manifests.Names(given.registry, given.version, provider, revision)
        platforms = given.platforms.split(",")
        packages(source, Path(scratch), given.work, given.out, epoch, platforms, names)
        (given.out / "RELEASE.md").write_text(page(source, names))
    for arch in platforms:
        file = given.out / f"{manifests.REPOSITORIES[0]}-{arch}.xpkg"
        text = bill.bill(file, names.function, names.version, epoch)
        file.with_suffix(".cdx.json").write_text(text)
    digests = {f"{names.registry}/{name}:{names.version}": d for name, d in names.digests.items()}
    (given.out / "DIGESTS").write_text("".join(f"{d}  {ref}\n" for ref, d in digests.items()))
    (given.out / "provenance.json").write_text(provenance(digests, names, platforms))
    seal(given.out, key)
    if given.push:
        for reference, digest in digests.items():
            refuse_other(reference, digest)
        for name, digest in names.digests.items():
            repository = f"{names.registry}/{name}"
            if push(given.out, name, f"{repository}:{names.version}") != digest:
                sys.exit(f"release: {repository} has other bytes than were made here")
            if key:
                signing.sign_image(key, repository, digest)
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
    work: Path | None,
    out: Path,
    epoch: int,
    platforms: list[str],
    names: manifests.Names,
) -> None:
    """Write packages, wheel and manifests to `out`, and the digests to `names`."""
    function = manifests.REPOSITORIES[0]
    with image.registry(scratch / "registry") as address:
        for name in manifests.REPOSITORIES:
            root = manifests.write_root(source, scratch / "roots" / name, names, name)
            if name == function:
                for arch in platforms:
                    made = image.reusable(work or scratch, source, arch)
                    file = image.build(source, made, arch, epoch, names.labels)
                    embedded = f"--embed-runtime-image-tarball={file}"
                    xpkg(root, out / f"{name}-{arch}.xpkg", embedded)
                    shutil.copy(next((made / "wheel").glob("*.whl")), out)
            else:
                xpkg(root, out / f"{name}.xpkg")
            names.digests[name] = push(out, name, f"{address}/{name}:{names.version}")
    for name, documents in manifests.install(source, names).items():
        (out / name).write_text(yaml.safe_dump_all(documents, sort_keys=False))


def xpkg(root: Path, file: Path, *more: str) -> None:
    tool("crossplane", "xpkg", "build", f"--package-root={root}", f"--package-file={file}", *more)


def push(out: Path, name: str, reference: str) -> str:
    """Push a package, of all its architectures; its digest in the registry."""
    files = ",".join(map(str, sorted(out.glob(f"{name}*.xpkg"))))
    tool("crossplane", "xpkg", "push", f"--package-files={files}", reference)
    return tool("crane", "digest", reference)


def refuse_other(reference: str, digest: str) -> None:
    """Exit where a registry has a tag with another digest, or does not say whether it has it."""
    try:
        found = tool("crane", "digest", reference, stderr=subprocess.PIPE)
    except subprocess.CalledProcessError as failed:
        error = failed.stderr.decode(errors="replace").strip()
        if re.search(r"MANIFEST_UNKNOWN|NAME_UNKNOWN|NOT_FOUND|404 Not Found", error):
            return
        sys.exit(f"release: {reference}: cannot tell whether the tag exists: {error}")
    if found != digest:
        sys.exit(f"release: {reference} exists as {found}, not {digest}: nothing was pushed")


def page(source: Path, names: manifests.Names) -> str:
    """Return the changelog's section of the version."""
    sections = re.split(r"(?m)^(?=## )", (source / "CHANGELOG.md").read_text())
    for section in sections:
        if section.split()[1:2] == [names.version[1:]]:
            return section
    sys.exit(f"release: CHANGELOG.md has no section {names.version[1:]}")


def provenance(digests: Mapping[str, str], names: manifests.Names, platforms: list[str]) -> str:
    """Return the packages and their commit as an in-toto statement (SLSA provenance v1)."""
    subjects = [{"name": r, "digest": {"sha256": d.split(":")[1]}} for r, d in digests.items()]
    parameters = {
        "version": names.version,
        "registry": names.registry,
        "provider": names.provider,
        "platforms": platforms,
    }
    source = {"name": "commit", "digest": {"gitCommit": names.revision}}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:function-kv-offload:make-release",
                "externalParameters": parameters,
                "resolvedDependencies": [source],
            },
            "runDetails": {"builder": {"id": "urn:function-kv-offload:tools.release"}},
        },
    }
    return json.dumps(statement, indent=1) + "\n"


def seal(out: Path, key: signing.PrivateKey | None) -> None:
    """Write SHA256SUMS over all files, and sign it if there is a key."""
    files = sorted(path for path in out.iterdir() if path.is_file())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / SUMS).write_text("".join(sums))
    if key:
        (out / SIGNATURE).write_text(signing.sign(key, (out / SUMS).read_bytes()))
        (out / PUBLIC).write_bytes(signing.public_pem(key))


if __name__ == "__main__":
    main()
