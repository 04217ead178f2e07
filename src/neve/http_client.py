"""HTTP client of Neve, over urllib3: no redirects, bounded responses, timeouts, and retries with backoff.

Every request of Neve to another server goes through it: catalogs with branches, forges, destinations of tail sampling,
the query API, the processes of a group. The callers decide what a status means and raise errors of their own.

Redirects are not followed, because they would send keys to another server. Retries are tenacity's and not urllib3's,
because they are bounded by time and not by number, and a caller can end them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

import urllib3
from tenacity import Retrying, retry_if_exception, stop_any, stop_before_delay, stop_when_event_set
from tenacity.nap import sleep, sleep_using_event
from tenacity.wait import wait_random_exponential
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError
from urllib3.exceptions import TimeoutError as NoAnswerInTime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Event

    from tenacity import RetryCallState

PIECE_BYTES = 64 * 1024
# A read timeout begins anew with each piece. A server that sends byte by byte is given up after this many timeouts.
BODY_TIMEOUTS = 10
INITIAL_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30
_random_backoff = wait_random_exponential(multiplier=INITIAL_BACKOFF_SECONDS, max=MAX_BACKOFF_SECONDS, min=0.05)


class NoReply(Exception):
    """Raised when there is no complete response. `is_sent` is False if the server can't have executed the request."""

    def __init__(self, message: str, *, is_sent: bool = True) -> None:
        super().__init__(message)
        self.is_sent = is_sent


class ServerUntrusted(NoReply):
    """Raised when a server has no certificate that is trusted. A retry would fail again."""


class RetryableError(Exception):
    """Raised by an attempt that may succeed later. `after` is the delay that the server requested, in seconds."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.after = after


@dataclass(frozen=True)
class HttpReply:
    """Response of a server. The names of headers are in lower case.

    `is_truncated` is True if the body was larger than the client accepts; then it has the first bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    reason: str = ""
    is_truncated: bool = False

    @property
    def is_success(self) -> bool:
        """Return whether the server accepted the request."""
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> float | None:
        """Return the delay that the server requests, in seconds."""
        return parse_retry_after(self.headers.get("retry-after", ""))


class HttpClient:
    """HTTP client with connections that are kept; threads can share it."""

    def __init__(  # noqa: PLR0913 - timeouts, limits and certificates of one server
        self,
        *,
        timeout_seconds: float,
        max_reply_bytes: int,
        headers: Mapping[str, str] | None = None,
        ca_file: str = "",
        client_certificate: str = "",
        client_key: str = "",
        connections: int = 1,
    ) -> None:
        self._headers = dict(headers or {})
        self._timeout, self._most = timeout_seconds, max_reply_bytes
        self._pool = urllib3.PoolManager(
            num_pools=max(1, connections),
            maxsize=max(1, connections),
            retries=False,
            ca_certs=ca_file or None,
            cert_file=client_certificate or None,
            key_file=client_key or None,
        )

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> HttpReply:
        """Send a request once and return the response, whatever its status is. Raises `NoReply`."""
        seconds = timeout_seconds or self._timeout
        response = self.open(method, url, body, headers, connect_seconds=seconds, read_seconds=seconds)
        try:
            read = _read_body(response, self._most, time.monotonic() + BODY_TIMEOUTS * seconds)
        except (HTTPError, OSError) as error:
            raise _no_reply(url, error) from error
        finally:
            close_response(response)
        names = {name.lower(): value for name, value in response.headers.items()}
        return HttpReply(response.status, names, read[: self._most], response.reason or "", len(read) > self._most)

    def open(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        connect_seconds: float,
        read_seconds: float | None,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request and return the response with its body unread; the caller closes it. Raises `NoReply`."""
        try:
            return self._pool.request(
                method,
                url,
                body=body,
                headers={**self._headers, **(headers or {})},
                timeout=urllib3.Timeout(connect=connect_seconds, read=read_seconds),
                preload_content=False,
                redirect=False,
            )
        except (HTTPError, OSError) as error:
            raise _no_reply(url, error) from error

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def close_response(response: urllib3.BaseHTTPResponse) -> None:
    """Return the connection of a response to the pool, or close it if bytes of the response are unread."""
    if not response.closed:
        response.close()  # unread bytes would be parsed as the next response
    response.release_conn()


def quote_path_part(text: str) -> str:
    """Quote a text as one segment of a path.

    >>> quote_path_part("a/b c")
    'a%2Fb%20c'
    """
    return quote(text, safe="")


def parse_retry_after(value: str, now: datetime | None = None) -> float | None:
    """Return the delay in seconds of a `Retry-After` header, which is a number of seconds or a date.

    >>> parse_retry_after("7"), parse_retry_after("soon")
    (7.0, None)
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())


def make_retrying(
    seconds: float,
    is_retryable: Callable[[BaseException], bool],
    on_retry: Callable[[RetryCallState], None],
    ended: Event | None = None,
) -> Retrying:
    """Return retries with growing random backoff. A pause that would exceed the time limit is not started.

    The delay that a `RetryableError` carries is added to the backoff. An event ends the retries, also during a pause.
    The last error is raised if no attempt succeeds.
    """
    limit = stop_before_delay(seconds)
    return Retrying(
        retry=retry_if_exception(is_retryable),
        stop=stop_any(limit, stop_when_event_set(ended)) if ended else limit,
        wait=_compute_wait,
        sleep=sleep_using_event(ended) if ended else sleep,
        before_sleep=on_retry,
        reraise=True,
    )


def describe_retry(state: RetryCallState) -> dict[str, object]:
    """Return the fields of a log line about a retry."""
    error = state.outcome.exception() if state.outcome else None
    return {"attempt": state.attempt_number, "pause_seconds": round(state.upcoming_sleep, 1), "error": str(error)}


def _compute_wait(state: RetryCallState) -> float:
    """Return the requested delay plus a random one, so that clients do not retry all at once."""
    busy = state.outcome.exception() if state.outcome else None
    return _random_backoff(state) + (busy.after or 0.0 if isinstance(busy, RetryableError) else 0.0)


def _read_body(response: urllib3.BaseHTTPResponse, most: int, deadline: float) -> bytes:
    """Read a body up to one byte more than the limit, in pieces as they arrive."""
    read = bytearray()
    while len(read) <= most:
        piece = response.read1(min(PIECE_BYTES, most + 1 - len(read)))
        if not piece:
            response.drain_conn()  # nothing is left: http.client frees the connection for the next request
            break
        read += piece
        if time.monotonic() > deadline:
            raise NoAnswerInTime("the body arrived too slowly")
    return bytes(read)


def _no_reply(url: str, error: Exception) -> NoReply:
    if isinstance(error, SSLError):
        return ServerUntrusted(f"{url} has an invalid certificate: {error}", is_sent=False)
    if isinstance(error, NewConnectionError | ConnectTimeoutError):
        return NoReply(f"no connection to {url}: {error}", is_sent=False)
    return NoReply(f"no answer from {url}: {type(error).__name__}: {error}")
