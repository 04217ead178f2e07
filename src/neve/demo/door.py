"""A sender's door to receivers: OTLP over HTTP, one connection, and the next receiver where one does not answer."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.model.signals import Signal

TIMEOUT_SECONDS = 30.0
PAUSE_SECONDS = 0.5  # before a message is sent again, where nobody says how long to wait
LONGEST_PAUSE_SECONDS = 30.0
OK = 200
AGAIN = (429, 502, 503, 504)  # what the standard has senders try again after
HEADERS = {"Content-Type": "application/x-protobuf"}


@dataclass(frozen=True)
class Answer:
    """What became of a message: acknowledged, to be sent again after a while, or refused for good."""

    acknowledged: bool = False
    pause_seconds: float = 0.0
    refused: str = ""


class Door:
    """A connection that is opened when it is needed; one thread uses it."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._places = [_place(address) for address in addresses]
        self._connection: http.client.HTTPConnection | None = None

    def send(self, signal: Signal, message: bytes) -> Answer:
        """Send a message once."""
        connection = self._connection = self._connection or self._connect()
        try:
            connection.request("POST", f"/v1/{signal}", message, HEADERS)
            response = connection.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException):
            # It may be durable or not: it is sent again, unchanged, and whoever has it already will know it.
            self.close()
            self._places.append(self._places.pop(0))
            return Answer(pause_seconds=PAUSE_SECONDS)
        return _answer(response, said)

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._places[0]
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)


def _place(address: str) -> tuple[str, int]:
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ConfigError(f"the receiver's address is {address!r}, expected http://host:port")
    return parts.hostname, parts.port


def _answer(response: http.client.HTTPResponse, said: bytes) -> Answer:
    if response.status in AGAIN:
        return Answer(pause_seconds=_pause(response.getheader("retry-after")))
    if response.status != OK:
        return Answer(refused=f"HTTP {response.status}: {said[:200]!r}")
    # An answer with something in it says that a part was refused.
    return Answer(refused=f"a part was refused: {said[:200]!r}") if said else Answer(acknowledged=True)


def _pause(told: str | None) -> float:
    """What `Retry-After` says; a date, which it may also be, is not worth reading."""
    seconds = float(told) if told and told.isdecimal() else PAUSE_SECONDS
    return min(seconds, LONGEST_PAUSE_SECONDS)
