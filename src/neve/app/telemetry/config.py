"""Settings of Neve's own telemetry, the endpoint that it is sent to, and the header that marks it as Neve's own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import Field, SecretStr, field_validator

from neve.errors import ConfigError
from neve.model.settings import Section, as_text, check_http_address

if TYPE_CHECKING:
    from neve.receive.config import ReceiverConfig


SELF = "self"
HEADER = re.compile(r"^[A-Za-z0-9_.-]+$")


class TelemetryConfig(Section):
    """Where Neve's own traces and logs go, and how many of them."""

    endpoint: str = Field(
        "",
        description="destination of Neve's own traces and logs: empty for none, self for its own receiver, or "
        "an http:// or https:// address that has /v1/traces and /v1/logs",
    )
    headers: dict[str, SecretStr] = Field({}, description="additional request headers; values are secrets")
    key: SecretStr = Field(
        SecretStr(""),
        description="API key to send, if the receiver requires one; the telemetry belongs to the key's organization",
    )
    ca_file: str = Field("", description="PEM file with trusted certificates; empty: the system's")
    client_certificate: str = Field(
        "", description="PEM file of the certificate to present to a receiver that requires one; empty: none"
    )
    client_key: str = Field("", description="PEM file of the private key of `client_certificate`")
    sample_ratio: float = Field(
        1.0, ge=0, le=1, description="share of traces to send; the sampling decision of a caller wins"
    )
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="minimum level of log lines to send"
    )
    interval_seconds: float = Field(
        5.0, gt=0, le=3600, description="seconds between exports; with self, each export becomes a small commit"
    )
    max_queue: int = Field(
        8192,
        ge=1,
        le=1_000_000,
        description="maximum number of queued spans, and of queued log lines; more are dropped and counted",
    )
    drain_seconds: float = Field(5.0, ge=0, le=600, description="seconds to wait for pending exports at shutdown")

    _plain_headers = field_validator("headers", mode="before")(as_text)

    @field_validator("endpoint")
    @classmethod
    def _is_place(cls, value: str) -> str:
        expected = "should be empty, self, http://host:port or https://host:port, with a path where needed"
        return value if value in ("", SELF) else check_http_address(value, expected)

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, secret in value.items():
            if not HEADER.match(name):
                raise ValueError(f"should have names of letters, digits, '-', '_' and '.', got {name!r}")
            text = secret.get_secret_value()
            if not (text.isprintable() and text.isascii()):
                raise ValueError(f"should have values of printable ASCII; that of {name} is not")
        return value


# A receiver of a request with this header creates no telemetry for it, to prevent an endless loop. A header is visible
# before anything is decoded. It is no secret: another client that sends it only suppresses a span.
OWN_HEADER = "x-neve-telemetry"
WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what is listened on is not what is called


@dataclass(frozen=True)
class Endpoint:
    """An OTLP receiver over HTTP."""

    base: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    ca_file: str = ""
    client_certificate: str = ""
    client_key: str = ""

    def url(self, signal: str) -> str:
        """Return the URL of a signal.

        >>> Endpoint("http://127.0.0.1:4318/").url("traces")
        'http://127.0.0.1:4318/v1/traces'
        """
        return f"{self.base.rstrip('/')}/v1/{signal}"


def resolve_endpoint(config: TelemetryConfig, receiver_address: str | None) -> Endpoint:
    """Return the configured endpoint; raises `ConfigError` for `self` if there is no own receiver."""
    headers = {name: secret.get_secret_value() for name, secret in config.headers.items()}
    key = config.key.get_secret_value()
    if key:
        headers["x-api-key"] = key
    certificates = (config.ca_file, config.client_certificate, config.client_key)
    if config.endpoint != SELF:
        return Endpoint(config.endpoint, headers, *certificates)
    if receiver_address is None:
        raise ConfigError(
            "telemetry.endpoint is 'self', but the receiver's address is unknown",
            hint="set receiver.http and a receiver.http_port, or set telemetry.endpoint to the receiver's address",
        )
    return Endpoint(receiver_address, headers, *certificates)


def find_receiver_address(receiver: ReceiverConfig) -> str | None:
    """Return the address of the configured receiver, for another process; none if only the receiver knows it.

    >>> from neve.receive.config import ReceiverConfig
    >>> find_receiver_address(ReceiverConfig(host="0.0.0.0")), find_receiver_address(ReceiverConfig(http_port=0))
    ('http://127.0.0.1:4318', None)
    """
    if not receiver.http or not receiver.http_port:
        return None
    host = f"[{receiver.host}]" if ":" in receiver.host else receiver.host
    return f"{receiver.tls.scheme}://{WILDCARD_HOSTS.get(receiver.host, host)}:{receiver.http_port}"
