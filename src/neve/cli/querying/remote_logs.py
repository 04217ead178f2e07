"""Log lines of a server, by Loki's HTTP API and its live tail."""

from __future__ import annotations

import json
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from neve.cli.querying.logs import MAX_LINES, OVERLAP_NS, RETRY_SECONDS, Batch, Repeats, read_streams
from neve.cli.remote_client import NO_CERTIFICATES, UNTRUSTED_HINT
from neve.errors import QueryError
from neve.http_client import HttpClient, NoReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.tls.config import ClientTlsConfig

__all__ = ["RemoteLogs"]

PREFIX = "/loki/api/v1"
CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 600.0
MAX_ANSWER_BYTES = 256 * 1024 * 1024
_RETRIED = frozenset({429, 500, 502, 503, 504})  # statuses of a server that starts or is busy


@dataclass
class RemoteLogs:
    """Lines of a server at an address, with a key that identifies the organization."""

    address: str
    key: str | None
    note: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep
    tls: ClientTlsConfig = NO_CERTIFICATES
    repeats: Repeats = field(default_factory=Repeats)

    def read(self, query: str, start_ns: int, limit: int) -> Batch:
        """Return the newest lines since a time."""
        parameters = urlencode({"query": query, "start": start_ns, "limit": limit})
        client = HttpClient(
            timeout_seconds=ANSWER_SECONDS,
            max_reply_bytes=MAX_ANSWER_BYTES,
            ca_file=self.tls.ca_file,
            client_certificate=self.tls.certificate,
            client_key=self.tls.key,
        )
        url = f"{self._base('http', 'https')}{PREFIX}/query_range?{parameters}"
        try:
            reply = client.request("GET", url, headers=self._headers())
        except (NoReply, ValueError) as error:
            raise QueryError(f"can't reach {self.address}: {error}", hint="check --server and --key") from error
        if reply.status != 200:
            raise QueryError(f"{self.address} answered {reply.status}: {_first_line(reply.body)}")
        return Batch(read_streams(json.loads(reply.body)["data"]["result"]))

    def follow(self, query: str, start_ns: int, limit: int) -> Iterator[Batch]:
        """Yield the newest lines, then new ones. A connection that ends is opened again."""
        from websockets.exceptions import ConnectionClosed

        attempt, is_first = 0, True
        while True:
            try:
                for batch in self._listen(query, start_ns, limit):
                    attempt = 0
                    if batch.lines:
                        # Lines before a full first batch were left out: a new connection does not print them either.
                        oldest = batch.lines[0].time_ns if is_first and len(batch.lines) >= limit else start_ns
                        start_ns = max(start_ns, oldest, batch.lines[-1].time_ns - OVERLAP_NS)
                        limit, is_first = MAX_LINES, False
                    yield batch
            except ConnectionClosed as error:
                if error.rcvd is not None and error.rcvd.code in {1007, 1008}:
                    raise QueryError(f"{self.address} ended the tail: {error.rcvd.reason}") from error
                reason = "the server closed the connection"
            except OSError as error:
                reason = str(error)
            seconds = RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)]
            self.note(f"note: {reason}; trying again in {seconds:g} s")
            attempt += 1
            self.pause(seconds)

    def _listen(self, query: str, start_ns: int, limit: int) -> Iterator[Batch]:
        from websockets.exceptions import InvalidHandshake, InvalidStatus
        from websockets.sync.client import connect

        url = f"{self._base('ws', 'wss')}{PREFIX}/tail?{urlencode({'query': query, 'start': start_ns, 'limit': limit})}"
        try:
            connection = connect(
                url,
                ssl=self._context() if url.startswith("wss:") else None,
                additional_headers=self._headers(),
                open_timeout=CONNECT_SECONDS,
                max_size=MAX_ANSWER_BYTES,
            )
        except ssl.SSLCertVerificationError as error:
            message = f"can't reach {self.address}: {error.verify_message}"
            raise QueryError(message, hint=UNTRUSTED_HINT) from error
        except InvalidStatus as error:
            status, text = error.response.status_code, _first_line(error.response.body)
            if status in _RETRIED:
                raise OSError(f"{self.address} answered {status}") from error
            raise QueryError(f"{self.address} answered {status}: {text}", hint="check --server and --key") from error
        except InvalidHandshake as error:
            raise OSError(f"{self.address} did not answer as a server of live tails: {error}") from error
        with connection:
            for data in connection:
                frame: dict[str, Any] = json.loads(data)
                lines = self.repeats.drop(read_streams(frame["streams"] or []))
                yield Batch(lines, len(frame.get("dropped_entries") or ()))

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.tls.ca_file or None)
        if self.tls.certificate:
            context.load_cert_chain(self.tls.certificate, self.tls.key)
        return context

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def _base(self, plain: str, secure: str) -> str:
        place = urlsplit(self.address if "://" in self.address else f"http://{self.address}")
        if place.scheme not in {"http", "https"} or not place.netloc:
            raise QueryError(f"--server is {self.address!r}, expected an address such as http://127.0.0.1:8480")
        return f"{secure if place.scheme == 'https' else plain}://{place.netloc}{place.path.rstrip('/')}"


def _first_line(body: bytes | bytearray | None) -> str:
    return bytes(body or b"").decode(errors="replace").strip().split("\n")[0][:500]
