"""The HTTP client against servers that are slow, huge, redirecting, resetting, lying and busy."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

import neve
import neve.http_client
from neve.errors import LakeError
from neve.http_client import (
    HttpClient,
    NoReply,
    RetryableError,
    describe_retry,
    make_retrying,
    parse_retry_after,
    quote_path_part,
)
from neve.lake.http import HttpStatusError, JsonHttpClient
from neve.tail.export.destination import DestinationUnavailable
from neve.tail.export.otlp import OtlpHttpDestination
from tests.tail.export.batches import kept_traces
from tests.tail.export.configs import network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tenacity import RetryCallState

HOST = "127.0.0.1"
MOST = 1000
PATIENT = 60.0  # seconds: longer than a loaded machine takes for anything here
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Server:
    """A server that writes the scripted bytes for each request; a script entry may act on the connection itself."""

    script: list[bytes | Callable[[socket.socket], None]]
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def run(self, listener: socket.socket) -> None:
        """Serve one connection after the other, until the listener is closed."""
        while not self.ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        while self.script and (head := _read_head(connection)):
            self.heads.append(head)
            act = self.script.pop(0)
            try:
                if callable(act):
                    act(connection)
                    return
                connection.sendall(act)
            except OSError:
                return  # the client has had enough
            if b"Connection: close" in act:
                return


def _read_head(connection: socket.socket) -> bytes:
    """Return the head of a request. Bodies of these tests are small: they arrive with the head, or are not read."""
    read = b""
    while b"\r\n\r\n" not in read:
        piece = connection.recv(65536)
        if not piece:
            return b""
        read += piece
    return read


@contextmanager
def serve(*script: bytes | Callable[[socket.socket], None]) -> Iterator[Server]:
    """Run a server on loopback in a thread."""
    server = Server(list(script))
    with socket.create_server((HOST, 0)) as listener:
        server.url = f"http://{HOST}:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=(listener,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENT)


def client(seconds: float = PATIENT, **more: object) -> HttpClient:
    """A client with a small bound of replies."""
    return HttpClient(timeout_seconds=seconds, max_reply_bytes=MOST, **more)  # type: ignore[arg-type]


def reply(status: str, body: bytes = b"", *headers: str) -> bytes:
    """The bytes of a reply."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def reset(connection: socket.socket) -> None:
    """End a connection by a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_connections_are_used_again() -> None:
    """Requests one after the other share a connection, whether a reply has a length, is chunked or empty."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    with serve(OK, chunked, reply("204 No Content"), reply("200 OK", b"x" * MOST), OK) as server:
        there = client(headers={"X-Api-Key": "k"})
        replies = [there.request("POST", server.url, b"body", {"Accept": "*/*"}) for _ in range(5)]
        there.close()
    assert [one.body for one in replies] == [b"{}", b"abcde", b"", b"x" * MOST, b"{}"]
    assert [one.is_truncated for one in replies] == [False] * 5
    assert [one.status for one in replies] == [200, 200, 204, 200, 200]
    assert server.connections == 1
    assert all(b"X-Api-Key: k\r\n" in head and b"Accept: */*\r\n" in head for head in server.heads)


def test_a_huge_reply_is_not_read() -> None:
    """The client takes its bound and leaves the rest, and the next request has a connection of its own."""

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    with serve(flood, OK) as server:
        there = client()
        huge = there.request("GET", server.url)
        assert there.request("GET", server.url).body == b"{}"
    assert (huge.body, huge.is_truncated) == (b"x" * MOST, True)
    assert server.connections == 2


@pytest.mark.slow
def test_a_packed_bomb_is_not_unpacked() -> None:
    """The bound is one of unpacked bytes."""
    bomb = gzip.compress(bytes(50_000_000))
    with serve(reply("200 OK", bomb, "Content-Encoding: gzip")) as server:
        found = client().request("GET", server.url)
    assert (len(found.body), found.is_truncated) == (MOST, True)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_redirects_are_not_followed(status: str) -> None:
    """A redirect is a reply like any other: the key stays here."""
    with serve(OK) as other, serve(reply(status, b"", f"Location: {other.url}/")) as server:
        found = client(headers={"X-Api-Key": "secret"}).request("POST", server.url, b"body")
    assert found.status == int(status[:3])
    assert not found.is_success
    assert other.heads == []


def test_a_server_that_says_nothing_is_given_up() -> None:
    """The request may have been executed."""

    def say_nothing(_connection: socket.socket) -> None:
        server.ended.wait()

    with serve(say_nothing) as server:
        with pytest.raises(NoReply, match="ReadTimeoutError") as error:
            client(0.2).request("POST", server.url, b"body")
        server.ended.set()
    assert error.value.is_sent


def test_a_server_that_sends_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and the whole does not."""
    monkeypatch.setattr(neve.http_client, "BODY_TIMEOUTS", 0)

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        server.ended.wait()

    with serve(drip) as server:
        with pytest.raises(NoReply, match="too slowly"):
            client().request("GET", server.url)
        server.ended.set()


@pytest.mark.parametrize(
    "act",
    [
        reset,
        lambda connection: connection.close(),
        lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
        lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf"),
        lambda connection: connection.sendall(b"SMTP ready\r\n\r\n"),
    ],
    ids=["reset", "closed", "short", "short chunk", "not HTTP"],
)
def test_a_broken_reply_is_no_reply(act: Callable[[socket.socket], None]) -> None:
    """A part of a reply is never taken for the whole."""
    with serve(act) as server, pytest.raises(NoReply, match=server.url) as error:
        client().request("GET", server.url)
    assert error.value.is_sent


def test_a_server_that_is_not_there_was_sent_nothing() -> None:
    """The caller may send the request again, also one that must not be executed twice."""
    with socket.create_server((HOST, 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(NoReply, match="no connection to") as error:
        client().request("POST", f"http://{HOST}:{address[1]}", b"body")
    assert not error.value.is_sent


def test_a_busy_server_tells_when_to_come_back() -> None:
    """`Retry-After` in seconds, as a date, or as neither."""
    date = "Wed, 01 Jan 2020 00:00:00 GMT"
    afters = ("7", date, "soon")
    with serve(*(reply("429 Too Many", b"no", f"Retry-After: {after}") for after in afters)) as server:
        there = client()
        found = [there.request("GET", server.url) for _ in afters]
    assert [(one.status, one.reason, one.retry_after) for one in found] == [
        (429, "Too Many", 7.0),
        (429, "Too Many", 0.0),
        (429, "Too Many", None),
    ]
    assert parse_retry_after("") is None


def pauses_of(errors: list[Exception], seconds: float) -> list[float]:
    """The pauses between attempts that fail with these errors, without spending them."""
    pauses: list[float] = []

    def attempt() -> None:
        raise errors.pop(0)

    def note(state: RetryCallState) -> None:
        pauses.append(state.upcoming_sleep)
        assert describe_retry(state)["attempt"] == len(pauses)

    attempts = make_retrying(seconds, lambda error: isinstance(error, RetryableError), note)
    attempts.sleep = lambda _seconds: None
    with pytest.raises(type(errors[-1])):
        attempts(attempt)
    return pauses


def test_a_requested_delay_is_kept_and_spread() -> None:
    """A pause is as long as the server asks for, and a random bit longer."""
    first, second = pauses_of([RetryableError("no", after=7), RetryableError("no"), ValueError()], 3600)
    assert 7 < first <= 7.5 + 0.05
    assert 0.05 <= second <= 1.05


def test_a_pause_that_ends_too_late_is_not_begun() -> None:
    """Then the last error is raised at once."""
    assert pauses_of([RetryableError("no", after=100)], 10) == []


def test_an_event_ends_retries() -> None:
    """Also those that have time left."""
    ended = threading.Event()
    ended.set()
    attempts = make_retrying(3600, lambda _error: True, lambda _state: None, ended)
    with pytest.raises(RetryableError, match="no"):
        attempts(lambda: (_ for _ in ()).throw(RetryableError("no", after=3000)))


def test_catalogs_and_destinations_share_the_client() -> None:
    """A redirect and a huge reply are errors of theirs, in their words."""
    with serve(reply("302 Found", b"{}", "Location: http://127.0.0.1:1/"), reply("404 Not Found"), OK) as server:
        catalog = JsonHttpClient("nessie", server.url, {"Authorization": "Bearer x"})
        with pytest.raises(HttpStatusError, match="rejected by nessie with 302"):
            catalog.ask("GET", "/trees")
        assert catalog.ask_or_none("/trees") is None
        assert catalog.ask_or_none("/trees") == {}
    with pytest.raises(LakeError, match=r"nessie at .* does not respond"):
        JsonHttpClient("nessie", server.url, {}).ask("GET", "/trees")
    with serve(reset, reply("302 Found", b"", "Location: http://127.0.0.1:1/")) as server, capture_logs() as logs:
        destination = OtlpHttpDestination(network("otlp_http", server.url))
        with pytest.raises(DestinationUnavailable, match="HTTP 302"):
            destination.deliver(kept_traces(1, 1), "b")
        destination.close()
    assert [line["event"] for line in logs] == ["retrying destination"]


def test_only_one_module_speaks_http() -> None:
    """No other module opens connections of its own, but OpenTelemetry's exporters, which are given a session."""
    root = Path(neve.__file__).parent
    clients = ("urllib3.PoolManager", "import http.client", "urllib.request", "import requests", "import httpx")
    found = {
        str(path.relative_to(root)) for path in root.rglob("*.py") if any(name in path.read_text() for name in clients)
    }
    assert found == {"http_client.py", "app/telemetry/exporters.py"}


def test_a_path_part_has_no_slash() -> None:
    """Names can't leave their place in a path."""
    assert quote_path_part("../a?b#c") == "..%2Fa%3Fb%23c"
