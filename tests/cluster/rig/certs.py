"""Certificates of one rig: an authority that lives in memory, and folders with tls.crt, tls.key
and ca.crt, the layout that Crossplane mounts into its own pods and a function's.
"""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=2)


@dataclass(frozen=True)
class Authority:
    """A certificate authority; its key is never written to disk."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("kv-offload-rig")
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, folder: Path, common_name: str, *names: str) -> Path:
        """Write tls.crt, tls.key and ca.crt for localhost and these names, for server and client
        use alike."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = x509.SubjectAlternativeName(
            [
                *map(x509.DNSName, ("localhost", *names)),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
            ]
        )
        uses = x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        )
        certificate = (
            _builder(_name(common_name), self.certificate.subject, key.public_key())
            .add_extension(hosts, critical=False)
            .add_extension(uses, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.crt").write_bytes(self.pem)
        (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_private(folder / "tls.key", _private_pem(key))
        return folder


def service_account_key(path: Path) -> Path:
    """An RSA key with which an API server signs service account tokens."""
    write_private(path, _private_pem(rsa.generate_private_key(65537, 2048)))
    return path


def write_private(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)


def _builder(subject: x509.Name, issuer: x509.Name, public_key) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _private_pem(key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
