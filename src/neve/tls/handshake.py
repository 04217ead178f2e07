"""TLS handshakes of an asyncio server: each new connection gets the newest certificate, within bounds.

The handshake runs on an accepted connection, and not in `create_server`, for three reasons: a connection takes the
context of its own time, so that a renewed certificate and a changed list of authorities apply without a new port.
A client that stops in the middle of its handshake is closed in time. And unfinished handshakes are counted.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.tls.certificates import ServerCertificates

ProtocolFactory = Any  # uvicorn calls it with its own arguments
# The words of OpenSSL for clients that have no certificate, or none that is trusted.
CLIENT_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_client_certificate",
    "CERTIFICATE_VERIFY_FAILED": "wrong_client_certificate",
}


@dataclass
class TlsDoor:
    """The handshakes of one port. `build` makes the protocol that reads what clients send after it."""

    certificates: ServerCertificates
    build: ProtocolFactory
    seconds: float
    max_pending: int
    refused: Callable[[str, str], None] = lambda _reason, _peer: None
    _pending: set[asyncio.Task[None]] = field(default_factory=set)

    def protocol(self, **options: Any) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Handshake(self, self.build(**options))

    def begin(self, transport: asyncio.Transport, inner: asyncio.Protocol) -> None:
        """Start the handshake of a connection, unless too many are unfinished."""
        if len(self._pending) >= self.max_pending:
            self._refuse("too_many_handshakes", transport)
            return
        transport.pause_reading()  # the first bytes belong to the handshake, which a task starts
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport, inner))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    def close(self) -> None:
        """End unfinished handshakes."""
        for task in self._pending:
            task.cancel()

    async def _shake_hands(self, transport: asyncio.Transport, inner: asyncio.Protocol) -> None:
        early = _EarlyBytes()
        try:
            secure = await asyncio.get_running_loop().start_tls(
                transport,
                early,
                self.certificates.current().context,
                server_side=True,
                ssl_handshake_timeout=self.seconds,
                ssl_shutdown_timeout=self.seconds,
            )
        except (OSError, ssl.SSLError) as error:
            self._refuse(_describe_failure(error), transport)
        except asyncio.CancelledError:
            transport.abort()
            raise
        else:
            if secure is not None:  # none: the client has closed the connection
                early.hand_over(secure, inner)

    def _refuse(self, reason: str, transport: asyncio.Transport) -> None:
        peer = transport.get_extra_info("peername") or ("",)
        transport.abort()
        self.refused(reason, str(peer[0]))


class _Handshake(asyncio.Protocol):
    """Protocol of a connection before its handshake."""

    def __init__(self, door: TlsDoor, inner: asyncio.Protocol) -> None:
        self._door = door
        self._inner = inner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._door.begin(cast("asyncio.Transport", transport), self._inner)


class _EarlyBytes(asyncio.Protocol):
    """Buffer for bytes that arrive with the end of the handshake, before the task that waits for it runs."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._is_lost = False
        self._has_ended = False

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)

    def eof_received(self) -> bool | None:
        self._has_ended = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True

    def hand_over(self, transport: asyncio.Transport, inner: asyncio.Protocol) -> None:
        """Let the protocol of the application continue."""
        if self._is_lost:
            return
        transport.set_protocol(inner)
        inner.connection_made(transport)
        if self._pieces and not transport.is_closing():
            inner.data_received(b"".join(self._pieces))
        if self._has_ended:
            inner.eof_received()


def _describe_failure(error: Exception) -> str:
    """Return the reason of a failed handshake, as a label of a metric."""
    if isinstance(error, ssl.SSLError):
        return CLIENT_REASONS.get(error.reason or "", "failed_handshake")
    return "slow_handshake" if isinstance(error, TimeoutError | ConnectionAbortedError) else "closed"
