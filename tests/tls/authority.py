"""Certificate authorities for tests: certificates of servers and clients, written to files as operators have them."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key in files."""

    certificate: Path
    key: Path

    def settings(self, **others: object) -> dict[str, object]:
        """Return the values of a `tls` section."""
        return {"certificate": str(self.certificate), "key": str(self.key), **others}


@dataclass
class Authority:
    """A certificate authority whose certificate is in a folder."""

    folder: Path
    name: str = "authority"
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        """Write the authority's own certificate."""
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(self.subject)
            .issuer_name(self.subject)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + 365 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=True,
                    crl_sign=True,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = self.folder / f"{self.name}.pem"
        self.file.write_bytes(made.public_bytes(Encoding.PEM))

    def issue(self, name: str, days: float = 30, *, begins: float = -1, passphrase: bytes = b"") -> Pair:
        """Issue a certificate for localhost, and write it and its key as a renewal does: each file at once."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins * DAY)
            .not_valid_after(now + days * DAY)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        hidden = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        replace_file(pair.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden), 0o600)
        replace_file(pair.certificate, made.public_bytes(Encoding.PEM), 0o644)
        return pair

    def trust(self, client: Pair | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, with a certificate of its own."""
        context = ssl.create_default_context(cafile=str(self.file))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Write a file beside its place, and rename it."""
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    beside.chmod(mode)
    os.replace(beside, path)
