"""Certificates of a port: read and checked at the start, and read again when their files change."""

from __future__ import annotations

import os
import ssl
import stat
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.errors import ConfigError
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

    from neve.tls.config import TlsConfig

LOOK_SECONDS = 1.0  # between two looks at the files; a new certificate is used this soon
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
FileState = tuple[tuple[int, int, int], ...]

log = get_logger("neve.tls")


@dataclass(frozen=True)
class LoadedCertificate:
    """A certificate with its key, as gRPC and as Python's ssl need them. Its `repr` does not contain the key."""

    chain: bytes
    key: bytes = field(repr=False)
    client_ca: bytes
    name: str
    expires_at: datetime
    context: ssl.SSLContext = field(repr=False)


def load_certificate(config: TlsConfig, section: str, now: datetime | None = None) -> LoadedCertificate:
    """Read and check the files of a port; raises `ConfigError` with the setting, its value and what was expected."""
    chain = _read(config.certificate, f"{section}.certificate")
    key = _read(config.key, f"{section}.key")
    client_ca = _read(config.client_ca, f"{section}.client_ca") if config.client_ca else b""
    leaf = _parse_chain(chain, config.certificate, f"{section}.certificate")[0]
    if not _is_pair(leaf, _parse_key(key, config.key, f"{section}.key")):
        raise ConfigError(
            f"{section}.key is {config.key!r}, expected the private key of the certificate in {config.certificate}",
            hint="the first certificate of the file must be that of the port, intermediate ones follow it",
        )
    _check_times(leaf, config.certificate, f"{section}.certificate", now or datetime.now(UTC))
    if client_ca:
        _parse_chain(client_ca, config.client_ca, f"{section}.client_ca")
    expires_at = leaf.not_valid_after_utc
    return LoadedCertificate(chain, key, client_ca, _describe_name(leaf), expires_at, _build_context(config, section))


def has_public_key_file(config: TlsConfig) -> bool:
    """Return whether every user of this machine may read the private key."""
    try:
        return bool(os.stat(config.key).st_mode & stat.S_IROTH)
    except OSError:
        return False


class ServerCertificates:
    """The certificate of one port, which is read again when its files change. Threads can share it.

    Connections keep the certificate that they began with. Files that do not match, as between the two writes of a
    renewal, change nothing: the earlier certificate stays until they do.
    """

    def __init__(self, config: TlsConfig, section: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.section = section
        self.failures = 0  # changes of the files that were not usable
        self._clock = clock
        self._lock = threading.Lock()
        self._state = _file_state(config)
        self._loaded = load_certificate(config, section)
        self._looked = clock()
        if has_public_key_file(config):
            log.warning("every user of this machine may read the private key", setting=f"{section}.key")

    def current(self) -> LoadedCertificate:
        """Return the newest usable certificate."""
        with self._lock:
            now = self._clock()
            if now - self._looked >= LOOK_SECONDS:
                self._looked = now
                self._look()
            return self._loaded

    def _look(self) -> None:
        state = _file_state(self.config)
        if state == self._state:
            return
        try:
            self._loaded = load_certificate(self.config, self.section)
        except ConfigError as error:
            self.failures += 1
            log.warning("changed certificate is not usable, the earlier one stays", reason=error.message)
        else:
            log.info("certificate was renewed", port=self.section, expires_at=self._loaded.expires_at.isoformat())
        self._state = state


def describe_peer(certificate: Mapping[str, Any] | None) -> str:
    """Return the name in a client's certificate, as Python's ssl decodes it: the common name, or an alternative one.

    >>> describe_peer({"subject": ((("commonName", "billing"),),)}), describe_peer(None)
    ('billing', '')
    >>> describe_peer({"subject": (), "subjectAltName": (("URI", "spiffe://acme/billing"),)})
    'spiffe://acme/billing'
    """
    if not certificate:
        return ""
    names = [value for parts in certificate.get("subject", ()) for name, value in parts if name == "commonName"]
    names += [value for _kind, value in certificate.get("subjectAltName", ())]
    return str(names[0]) if names else ""


def _read(path: str, setting: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{setting} is {path!r}: {(error.strerror or str(error)).lower()}, expected a PEM file",
            hint="the user of the service must be able to read it",
        ) from None


def _parse_chain(data: bytes, path: str, setting: str) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - for those who use TLS

    try:
        return load_pem_x509_certificates(data)
    except ValueError:
        raise ConfigError(f"{setting} is {path!r}, expected a PEM file with certificates") from None


def _parse_key(data: bytes, path: str, setting: str) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        return load_pem_private_key(data, None)
    except TypeError:
        raise ConfigError(
            f"{setting} is {path!r}, which has a passphrase, expected a private key without one",
            hint="remove it with `openssl pkey -in KEY -out NEW`, and let only the user of the service read the file",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"{setting} is {path!r}, expected a PEM file with a private key") from None


def _is_pair(leaf: Certificate, key: PrivateKeyTypes) -> bool:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415 - as above

    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return leaf.public_key().public_bytes(*form) == key.public_key().public_bytes(*form)


def _check_times(leaf: Certificate, path: str, setting: str, now: datetime) -> None:
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if not begins <= now < ends:
        what = f"expired at {ends:%Y-%m-%dT%H:%M:%SZ}" if now >= ends else f"begins at {begins:%Y-%m-%dT%H:%M:%SZ}"
        raise ConfigError(f"{setting} is {path!r}, which {what}, expected a valid certificate", hint="renew it")


def _describe_name(leaf: Certificate) -> str:
    from cryptography.x509.oid import NameOID  # noqa: PLC0415 - as above

    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else leaf.subject.rfc4514_string()


def _build_context(config: TlsConfig, section: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[config.min_version]
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(config.certificate, config.key)
        if config.client_ca:
            context.load_verify_locations(config.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{section} has files that OpenSSL does not accept: {error}") from None
    return context


def _file_state(config: TlsConfig) -> FileState:
    """Return inode, size and time of each file; a file that can't be read has none."""
    return tuple(_state_of(path) for path in (config.certificate, config.key, config.client_ca) if path)


def _state_of(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)
