"""A byte, a file or a key that differs from what was signed fails `make verify-release`."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.rig.functions import CHECKOUT
from tests.release.conftest import ARCH, Released
from tests.release.made import Keys, commit, make
from tests.release.registry import put
from tools.release import __main__ as release
from tools.release import image, signing, verify
from tools.release.image import tool
from tools.release.signing import Invalid


@pytest.fixture
def copied(released: Released, tmp_path: Path) -> Path:
    return shutil.copytree(released.made["v0.1.0"], tmp_path / "copied")


def _verify(release: Path, public: Path, **more: str) -> subprocess.CompletedProcess:
    given = {"PUBLIC": str(public), "VERIFY_ARGS": f"--release {release}"} | more
    command = ["make", "--silent", "verify-release", *(f"{k}={v}" for k, v in given.items())]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


def test_what_was_made_and_pushed_is_right(released: Released):
    done = _verify(released.made["v0.1.0"], released.keys.public, PULLED="1")
    assert done.returncode == 0, done.stdout + done.stderr
    files = len(list(released.made["v0.1.0"].iterdir()))
    assert done.stdout.startswith(f"{files - 3} files: ")


def test_a_changed_byte_of_any_file_fails(copied: Path, released: Released):
    key = signing.public_key(released.keys.public)
    verify.files(copied, key)
    names = sorted({path.name for path in copied.iterdir()} - {"release.pub"})
    assert len(names) > 10
    for name in names:
        right = (copied / name).read_bytes()
        middle = len(right) // 2
        (copied / name).write_bytes(
            right[:middle] + bytes([right[middle] ^ 1]) + right[middle + 1 :]
        )
        with pytest.raises(Invalid, match="SHA256SUMS|" + name):
            verify.files(copied, key)
        (copied / name).write_bytes(right)


def test_command_fails_with_the_name_of_the_changed_file(copied: Path, released: Released):
    with (copied / "install.yaml").open("a") as file:
        file.write(" ")
    done = _verify(copied, released.keys.public)
    assert done.returncode != 0
    assert "install.yaml: its bytes are not those that were signed" in done.stderr


def test_missing_and_added_files_fail(copied: Path, released: Released):
    key = signing.public_key(released.keys.public)
    (copied / "more.yaml").write_text("")
    with pytest.raises(Invalid, match=r"more\.yaml"):
        verify.files(copied, key)
    (copied / "more.yaml").unlink()
    (copied / "standalone.yaml").unlink()
    with pytest.raises(Invalid, match=r"standalone\.yaml"):
        verify.files(copied, key)


def test_another_key_and_no_signature_fail(copied: Path, tmp_path: Path, released: Released):
    other = Keys(tmp_path / "other").make()
    with pytest.raises(Invalid, match="signature"):
        verify.files(copied, signing.public_key(other.public))
    (copied / "SHA256SUMS.sig").unlink()
    done = _verify(copied, released.keys.public)
    assert done.returncode != 0
    assert "SHA256SUMS.sig" in done.stderr


def test_bill_that_does_not_list_the_package_fails(copied: Path):
    """Also where somebody signed it."""
    package = copied / f"function-kv-offload-{ARCH}.xpkg"
    listed = package.with_suffix(".cdx.json")
    verify.contents(package, listed)
    document = json.loads(listed.read_text())
    names = {component["name"] for component in document["components"]}
    assert {"libc6", "python3.13-minimal", "grpcio", "function-kv-offload"} <= names
    document["components"].pop()
    listed.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    with pytest.raises(Invalid, match="does not list"):
        verify.contents(package, listed)


def test_registry_with_other_bytes_or_another_signature_fails(released: Released, tmp_path: Path):
    release, key = released.made["v0.2.0"], signing.public_key(released.keys.public)
    verify.pulled(release, key)
    digest, reference = (release / "DIGESTS").read_text().split()[:2]
    repository = reference.rpartition(":")[0]
    other = Keys(tmp_path / "other").make()
    signing.sign_image(signing.private_key(other.private), repository, digest)
    with pytest.raises(Invalid, match="the signature does not fit"):
        verify.pulled(release, key)
    signing.sign_image(signing.private_key(released.keys.private), repository, digest)
    verify.pulled(release, key)
    tool("crane", "tag", f"{repository}:v0.1.0", "v0.2.0")
    with pytest.raises(Invalid, match="the registry has"):
        verify.pulled(release, key)
    tool("crane", "tag", f"{repository}@{digest}", "v0.2.0")
    verify.pulled(release, key)


def test_image_without_a_signature_of_the_key_fails(released: Released, tmp_path: Path):
    """None, an empty list, another key's, one of another image; another key's beside it passes."""
    key = signing.public_key(released.keys.public)
    mine = signing.private_key(released.keys.private)
    other = signing.private_key(Keys(tmp_path / "other").make().private)
    lines = (released.made["v0.3.0"] / "DIGESTS").read_text().splitlines()
    (digest, reference), (another, _) = (line.split() for line in lines[:2])
    unsigned = f"{released.registry.rpartition('/')[0]}/provider-kubernetes"
    with pytest.raises(Invalid, match="no signature"):
        signing.check_image(key, unsigned, tool("crane", "digest", f"{unsigned}:v1.2.1"))
    repository = reference.rpartition(":")[0]
    right, wrong = (signing.claim(repository, each) for each in (digest, another))
    for signed, problem in (
        ({}, "is empty"),
        ({right: signing.sign(other, right)}, "does not fit"),
        ({wrong: signing.sign(mine, wrong)}, "of another image"),
        ({right: ""}, "does not fit"),
    ):
        signing.push_signatures(repository, digest, signed)
        with pytest.raises(Invalid, match=problem):
            signing.check_image(key, repository, digest)
    signed = {wrong: signing.sign(other, wrong), right: signing.sign(mine, right)}
    signing.push_signatures(repository, digest, signed)
    signing.check_image(key, repository, digest)


def test_same_commit_gives_the_same_bytes(released: Released, tmp_path: Path):
    """Every file of the release, made again from nothing."""
    provider = released.registry.replace("/team", "/provider-kubernetes")
    again = make(
        released.commit,
        "0.1.0",
        released.registry,
        tmp_path / "again",
        PROVIDER=provider,
        more=f"--platforms {ARCH}",
    )
    first = released.made["v0.1.0"]
    assert (again / "SHA256SUMS").read_text() == (first / "SHA256SUMS").read_text()
    assert not (again / "SHA256SUMS.sig").exists()


def test_version_of_another_commit_is_refused(tmp_path: Path):
    arguments = f"--commit {commit()} --out {tmp_path / 'out'} --platforms {ARCH}"
    command = ["make", "release", "VERSION=v9.9.9", "REGISTRY=localhost/x"]
    done = subprocess.run(
        [*command, f"RELEASE_ARGS={arguments}"], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "pyproject.toml has 0.1.0, VERSION is v9.9.9" in done.stderr


_MISSING = {"digest": "sha256:" + "0" * 64}


def test_foreign_layer_neither_hides_a_signature_nor_replaces_one(tmp_path: Path):
    mine: signing.PrivateKey = ec.generate_private_key(ec.SECP256R1())
    with image.registry(tmp_path / "registry") as address:
        repository, digest = f"{address}/team/x", "sha256:" + "1" * 64
        payload, binary = signing.claim(repository, digest), b"\xff\xfe\x00"
        for data in (payload, binary):
            named = hashlib.sha256(data).hexdigest()
            upload = f"/v2/team/x/blobs/uploads/?digest=sha256:{named}"
            put(address, upload, data, "application/octet-stream")

        def described(data: bytes, signature: object) -> dict[str, object]:
            named = "sha256:" + hashlib.sha256(data).hexdigest()
            return {"digest": named, "annotations": {signing._SIGNATURE: signature}}

        right = described(payload, signing.sign(mine, payload))
        signed_binary = described(binary, signing.sign(mine, binary))
        tag = f"/v2/team/x/manifests/{digest.replace(':', '-')}.sig"
        for foreign in (
            _MISSING | {"annotations": {signing._SIGNATURE: "AAAA"}},
            described(binary, "AAAA"),
            signed_binary,
            described(payload, 7),
            {"digest": right["digest"], "annotations": None},
            {"annotations": right["annotations"]},
            "text",
        ):
            for layers in ([foreign], [foreign, right]):
                put(address, tag, json.dumps({"layers": layers}).encode(), signing._MANIFEST)
                if right in layers:
                    signing.check_image(mine.public_key(), repository, digest)
                else:
                    with pytest.raises(Invalid):
                        signing.check_image(mine.public_key(), repository, digest)


def test_tag_with_another_digest_stops_a_push(tmp_path: Path):
    with image.registry(tmp_path / "registry") as address:
        reference = f"{address}/team/x:v1"
        release.refuse_other(reference, "sha256:1")
        put(address, "/v2/team/x/manifests/v1", b'{"layers": []}', signing._MANIFEST)
        release.refuse_other(reference, tool("crane", "digest", reference))
        with pytest.raises(SystemExit, match="nothing was pushed"):
            release.refuse_other(reference, "sha256:1")
    with pytest.raises(SystemExit, match="cannot tell"):
        release.refuse_other(reference, "sha256:1")


def test_key_that_is_not_on_p256_is_refused(tmp_path: Path):
    file = tmp_path / "key"
    other: signing.PrivateKey = ec.generate_private_key(ec.SECP384R1())
    encoding, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = other.private_bytes(encoding, kind, serialization.NoEncryption())
    for read, text in ((signing.private_key, private), (signing.public_key, other)):
        for wrong in (b"none", text if isinstance(text, bytes) else signing.public_pem(text)):
            file.write_bytes(wrong)
            with pytest.raises(Invalid, match=r"PEM|P-256"):
                read(file)


def test_key_is_not_in_the_environment_of_build_tools(monkeypatch, tmp_path: Path):
    seen: list[dict[str, str]] = []

    def checkout(*_: object) -> None:
        seen.append(dict(os.environ))
        raise SystemExit

    monkeypatch.setattr(release, "checkout", checkout)
    for name in release.SECRET:
        monkeypatch.setenv(name, "secret")
    arguments = f"--version v0 --registry x --commit HEAD --out {tmp_path / 'out'}".split()
    monkeypatch.setattr(sys, "argv", ["release", *arguments])
    with pytest.raises(SystemExit):
        release.main()
    (environment,) = seen
    assert "secret" not in environment.values()


def test_layer_of_a_missing_folder_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        image.layer(tmp_path / "base", tmp_path / "base.tar", 0)


def test_other_requirements_use_another_folder(tmp_path: Path):
    (tmp_path / "package" / "image").mkdir(parents=True)
    (tmp_path / "package" / "image" / "steps.sh").write_text("")
    (tmp_path / "requirements.txt").write_text("a")
    before = image.reusable(tmp_path, tmp_path, "amd64")
    assert before == image.reusable(tmp_path, tmp_path, "amd64")
    (tmp_path / "requirements.txt").write_text("b")
    assert before != image.reusable(tmp_path, tmp_path, "amd64")
