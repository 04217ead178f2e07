"""Where Neve's own telemetry goes, and what says that it is Neve's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.app.telemetry.config import SELF
from neve.errors import ConfigError

if TYPE_CHECKING:
    from neve.app.telemetry.config import TelemetryConfig
    from neve.receive.config import ReceiverConfig

# Whoever receives a request with this header makes no telemetry of it, or there would never be an end. It says so in
# the headers, because there it is seen before anything is decoded; it is no secret, and whoever else sends it is spared
# no more than a span.
OWN_HEADER = "x-neve-telemetry"
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what is listened on is not what is called


@dataclass(frozen=True)
class Place:
    """An OTLP receiver over HTTP."""

    base: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    def url(self, signal: str) -> str:
        """Where messages of a signal go.

        >>> Place("http://127.0.0.1:4318/").url("traces")
        'http://127.0.0.1:4318/v1/traces'
        """
        return f"{self.base.rstrip('/')}/v1/{signal}"


def place_of(config: TelemetryConfig, receiver_address: str | None) -> Place:
    """The place that the configuration names; raises `ConfigError` for the own receiver where there is none."""
    headers = {name: secret.get_secret_value() for name, secret in config.headers.items()}
    key = config.key.get_secret_value()
    if key:
        headers["x-api-key"] = key
    if config.endpoint != SELF:
        return Place(config.endpoint, headers)
    if receiver_address is None:
        raise ConfigError(
            "telemetry.endpoint is 'self', but nobody can tell where the receiver is",
            hint="set receiver.http and a receiver.http_port, or set telemetry.endpoint to the receiver's address",
        )
    return Place(receiver_address, headers)


def own_address(receiver: ReceiverConfig) -> str | None:
    """Where the receiver of these settings is, for a process that does not run it; none where only it knows.

    >>> from neve.receive.config import ReceiverConfig
    >>> own_address(ReceiverConfig(host="0.0.0.0")), own_address(ReceiverConfig(http_port=0))
    ('http://127.0.0.1:4318', None)
    """
    if not receiver.http or not receiver.http_port:
        return None
    host = f"[{receiver.host}]" if ":" in receiver.host else receiver.host
    return f"http://{ANYWHERE.get(receiver.host, host)}:{receiver.http_port}"
