"""TLS of the service's ports, wired from the settings: which certificate each port has, and its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from neve.app.serve.config import API, RECEIVER

if TYPE_CHECKING:
    from collections.abc import Collection

    from neve.app.settings import Settings
    from neve.tls.certificates import ServerCertificates
    from neve.tls.config import TlsConfig

PORTS = ("receiver", "query", "serve")  # sections with a port

EXPIRY = Gauge(
    "neve_tls_certificate_expiry_timestamp_seconds",
    "Time at which the certificate of a port expires, in seconds since 1970, by port",
    ["port"],
)
RENEWAL_FAILURES = Gauge(
    "neve_tls_renewal_failures", "Changes of certificate files that were not usable since the start, by port", ["port"]
)
FAILED_HANDSHAKES = Counter(
    "neve_tls_failed_handshakes", "TLS handshakes over HTTP that failed, by port and reason", ["port", "reason"]
)


def apply_shared_tls(settings: Settings) -> Settings:
    """Return the settings in which each port without a certificate of its own has that of the section `tls`."""
    shared = settings.tls
    if not shared.is_on:
        return settings
    sections = {name: getattr(settings, name) for name in PORTS}
    changed = {
        name: section.model_copy(update={"tls": shared})
        for name, section in sections.items()
        if section.tls.enabled and not section.tls.certificate
    }
    return settings.model_copy(update=changed)


def list_certificates(settings: Settings, processes: Collection[str] = (RECEIVER, API)) -> dict[str, TlsConfig]:
    """Return the certificates in use by their section, each once: `tls` stands for the ports that share it."""
    wanted = ["serve", *(["receiver"] if RECEIVER in processes else []), *(["query"] if API in processes else [])]
    found: dict[str, TlsConfig] = {}
    for name in wanted:
        config: TlsConfig = getattr(settings, name).tls
        if config.is_on:
            found["tls" if config == settings.tls else f"{name}.tls"] = config
    return found


def check_certificates(settings: Settings, processes: Collection[str]) -> None:
    """Raise `ConfigError` for a certificate of these processes that can't be used."""
    from neve.tls.certificates import load_certificate  # noqa: PLC0415 - for those who use TLS

    for section, config in list_certificates(settings, processes).items():
        load_certificate(config, section)


def open_certificates(config: TlsConfig, port: str) -> ServerCertificates | None:
    """Return the certificates of a port with their metrics; none if it uses no TLS. Raises `ConfigError`."""
    if not config.is_on:
        return None
    from neve.tls.certificates import ServerCertificates  # noqa: PLC0415 - for those who use TLS

    certificates = ServerCertificates(config, f"{port}.tls")
    EXPIRY.labels(port).set_function(lambda: certificates.current().expires_at.timestamp())  # noqa: PLW0108 - renewed
    RENEWAL_FAILURES.labels(port).set_function(lambda: certificates.failures)
    return certificates


def count_failed_handshake(port: str, reason: str) -> None:
    """Count a failed handshake."""
    FAILED_HANDSHAKES.labels(port, reason).inc()
