"""A transparency log of a test: it signs that it has an entry, as Sigstore's Rekor does.

Sources: cosign 3.0.6, `pkg/cosign/verify.go` (VerifyBundle) and `pkg/cosign/tlog.go`.
"""

import base64
import hashlib
import json
from dataclasses import dataclass

from cryptography.hazmat.primitives import serialization

from tests.release.registry import put
from tools.release import signing
from tools.release.image import tool

_BUNDLE = "dev.sigstore.cosign/bundle"


@dataclass(frozen=True)
class Log:
    """`key`: the log's own."""

    key: signing.PrivateKey

    def enter(self, signer: signing.PrivateKey, repository: str, digest: str) -> None:
        """Sign an image with a key, and keep with the signature that the log has it."""
        signing.sign_image(signer, repository, digest)
        tag = f"{digest.replace(':', '-')}.sig"
        manifest = json.loads(tool("crane", "manifest", f"{repository}:{tag}"))
        (layer,) = manifest["layers"]
        payload = signing.claim(repository, digest)
        annotations = layer["annotations"]
        annotations[_BUNDLE] = self._bundle(payload, annotations[signing._SIGNATURE], signer)
        address, _, path = repository.partition("/")
        changed = json.dumps(manifest).encode()
        put(address, f"/v2/{path}/manifests/{tag}", changed, signing._MANIFEST)

    def _bundle(self, payload: bytes, signature: str, signer: signing.PrivateKey) -> str:
        public = base64.b64encode(signing.public_pem(signer)).decode()
        digest = {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}
        signed = {"content": signature, "publicKey": {"content": public}}
        record = {
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {"data": {"hash": digest}, "signature": signed},
        }
        encoding, kind = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        own = self.key.public_key().public_bytes(encoding, kind)
        entry = {
            "body": base64.b64encode(json.dumps(record).encode()).decode(),
            "integratedTime": 1_760_000_000,
            "logID": hashlib.sha256(own).hexdigest(),
            "logIndex": 0,
        }
        # Canonical JSON: these keys are in their order.
        promise = signing.sign(self.key, json.dumps(entry, separators=(",", ":")).encode())
        return json.dumps({"SignedEntryTimestamp": promise, "Payload": entry})
