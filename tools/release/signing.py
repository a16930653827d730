"""Signatures as cosign checks them, made with a key of one's own; nothing goes to a public log.

A file's signature is ECDSA over its SHA-256, in base64. An image's is a layer with a short JSON
text that names the digest; it lies in the same repository under the tag `sha256-DIGEST.sig`
(cosign's specs/SIGNATURE_SPEC.md).
"""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tools.release.image import output, tool

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey
_ECDSA = ec.ECDSA(hashes.SHA256())
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
_SIGNATURE = "dev.cosignproject.cosign/signature"


class Invalid(Exception):
    """A signature, a hash or a list that does not fit; the message says which."""


def private_key(file: Path) -> PrivateKey:
    """Read a key in PEM (P-256); KEY_PASSWORD is its password."""
    password = os.environ.get("KEY_PASSWORD")
    text = file.read_bytes()
    try:
        key = serialization.load_pem_private_key(text, password.encode() if password else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as wrong:
        raise Invalid(f"{file}: no private key in PEM, or another KEY_PASSWORD: {wrong}") from None
    if not isinstance(key, PrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Invalid(f"{file}: not an ECDSA key on P-256")
    return key


def public_pem(key: PrivateKey) -> bytes:
    encoding, kind = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, kind)


def public_key(file: Path) -> PublicKey:
    text = file.read_bytes()
    try:
        key = serialization.load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as wrong:
        raise Invalid(f"{file}: no public key in PEM: {wrong}") from None
    if not isinstance(key, PublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Invalid(f"{file}: not an ECDSA key on P-256")
    return key


def sign(key: PrivateKey, data: bytes) -> str:
    return base64.b64encode(key.sign(data, _ECDSA)).decode()


def check(key: PublicKey, data: bytes, signature: str, what: str) -> None:
    """Raise Invalid unless the private key of this public key signed these bytes."""
    try:
        key.verify(base64.b64decode(signature, validate=True), data, _ECDSA)
    except (InvalidSignature, ValueError):
        raise Invalid(f"{what}: the signature does not fit") from None


def sign_image(key: PrivateKey, repository: str, digest: str) -> None:
    """Push the signature of an image of a registry."""
    payload = claim(repository, digest)
    push_signatures(repository, digest, {payload: sign(key, payload)})


def push_signatures(repository: str, digest: str, signed: Mapping[bytes, str]) -> None:
    """Push texts with their signatures as those of an image, instead of what is there."""
    with tempfile.TemporaryDirectory() as scratch:
        layout = Path(scratch)
        layers = [
            _blob(layout, payload, _PAYLOAD) | {"annotations": {_SIGNATURE: signature}}
            for payload, signature in signed.items()
        ]
        files = {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}
        config = {"architecture": "", "os": "", "config": {}, "rootfs": files}
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _blob(layout, json.dumps(config).encode(), _CONFIG),
            "layers": layers,
        }
        top = {
            "schemaVersion": 2,
            "manifests": [_blob(layout, json.dumps(manifest).encode(), _MANIFEST)],
        }
        (layout / "index.json").write_text(json.dumps(top))
        (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        tool("crane", "push", layout, _tag(repository, digest))


def check_image(key: PublicKey, repository: str, digest: str) -> None:
    """Raise Invalid unless a registry has a signature of the image by this key; others may sign."""
    what = f"{repository}@{digest}"
    try:
        layers = json.loads(tool("crane", "manifest", _tag(repository, digest)))["layers"]
    except subprocess.CalledProcessError:
        raise Invalid(f"{what}: the registry gave no signature") from None
    except (ValueError, KeyError, TypeError):
        layers = None
    if not isinstance(layers, list):
        raise Invalid(f"{what}: its list of signatures cannot be read")
    problems = []
    for layer in layers:
        try:
            return _check_layer(key, repository, digest, layer)
        except Invalid as problem:
            problems.append(str(problem))
    raise Invalid("; ".join(problems) or f"{what}: its list of signatures is empty")


def _check_layer(key: PublicKey, repository: str, digest: str, layer: Any) -> None:
    what = f"{repository}@{digest}"
    try:
        blob, signature = layer["digest"], layer["annotations"][_SIGNATURE]
    except (KeyError, TypeError):
        raise Invalid(f"{what}: a layer has no signature") from None
    if not isinstance(blob, str) or not isinstance(signature, str):
        raise Invalid(f"{what}: a layer's digest or signature is not a text")
    try:
        payload = output("crane", "blob", f"{repository}@{blob}")
    except (subprocess.CalledProcessError, ValueError):
        raise Invalid(f"{what}: the registry did not give the signed text {blob}") from None
    if f"sha256:{hashlib.sha256(payload).hexdigest()}" != blob:
        raise Invalid(f"{what}: the registry gave other bytes for {blob}")
    check(key, payload, signature, what)
    try:
        signed = json.loads(payload)["critical"]["image"]["docker-manifest-digest"]
    except (ValueError, KeyError, TypeError):
        raise Invalid(f"{what}: the signed text names no image") from None
    if signed != digest:
        raise Invalid(f"{what}: the signature is of another image")


def claim(repository: str, digest: str) -> bytes:
    """Return the text that an image's signature signs."""
    critical = {
        "identity": {"docker-reference": repository},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }
    return json.dumps({"critical": critical, "optional": None}).encode()


def _tag(repository: str, digest: str) -> str:
    return f"{repository}:{digest.replace(':', '-')}.sig"


def _blob(layout: Path, data: bytes, kind: str) -> dict[str, Any]:
    """Write a blob of an OCI layout; its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    file = layout / "blobs" / "sha256" / digest
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return {"mediaType": kind, "size": len(data), "digest": f"sha256:{digest}"}
