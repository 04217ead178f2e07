"""Clients that say too much, too little or too slowly are bounded, one connection at a time."""

import gzip
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
import zstandard

from tests.api.running import HOST, PROTOBUF, LoopThread, Running, receiver_process, until
from tests.api.test_grpc import EXPORT
from tests.telemetry import traces

MB = 1024 * 1024
POST = b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n"


@contextmanager
def connected(running: Running) -> Iterator[socket.socket]:
    """A connection without manners."""
    with socket.create_connection((HOST, running.http_port), 600) as connection:
        yield connection


def hears(connection: socket.socket) -> bytes:
    """Everything that comes until the other side hangs up."""
    heard = b""
    try:
        while data := connection.recv(65_536):
            heard += data
    except ConnectionResetError:
        pass
    return heard


def talk(running: Running, *parts: bytes, drops: Iterable[bytes] = (), pause: float = 0.0) -> bytes:
    """Say something in parts, and in drops until the other side hangs up; then listen until the end."""
    with connected(running) as connection:
        try:
            for part in chain(parts, drops):
                connection.sendall(part)
                time.sleep(pause)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return hears(connection)


@pytest.mark.parametrize(
    "flood",
    [
        POST + b"".join(b"x-%d: y\r\n" % number for number in range(1000)) + b"content-length: 0\r\n\r\n",
        POST + b"x-long: " + b"y" * 10_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n",
        b"x" * 10_000,
    ],
    ids=["many", "long", "address", "no http"],
)
def test_a_flood_of_headers_is_refused(start: Callable[..., Running], flood: bytes) -> None:
    """431 (or 400 where it is no HTTP at all), and the connection ends."""
    receiver = start(max_header_bytes=4096, grpc=False)
    heard = talk(receiver, flood)
    assert heard.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))
    assert receiver.post("/v1/traces", traces()).status == 200


def test_headers_that_never_end_are_refused(start: Callable[..., Running]) -> None:
    """Bytes are counted while they come, not when they are complete."""
    receiver = start(max_header_bytes=4096, grpc=False)
    heard = talk(receiver, POST, *[b"x-more: " + b"y" * 500 + b"\r\n"] * 12, pause=0.005)
    assert heard.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert receiver.counted("neve_receiver_refusals_total", reason="header_flood") == 1


def test_slow_headers_are_given_up(start: Callable[..., Running], loop_thread: LoopThread) -> None:
    """408 when some came; where none came at all, nobody is told anything."""
    receiver = start(header_seconds=0.3, grpc=False)
    with ExitStack() as stack:
        with loop_thread.stopped():  # what is sent is there before the clock begins
            connection = stack.enter_context(connected(receiver))
            connection.sendall(POST)
        assert hears(connection).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert talk(receiver) == b""
    assert talk(receiver, b"\r\n", b"\r\n", pause=0.1) == b""
    assert receiver.counted("neve_receiver_refusals_total", reason="slow_headers") == 1


def test_dripping_headers_gain_no_time(start: Callable[..., Running]) -> None:
    """The clock is for all of them."""
    receiver = start(header_seconds=0.4, grpc=False)
    heard = talk(receiver, drops=chain([POST], repeat(b"x: y\r\n")), pause=0.05)
    assert b" 408 " in heard or heard == b""


def test_a_slow_body_is_given_up(start: Callable[..., Running]) -> None:
    """408, however regularly its drops come."""
    receiver = start(body_seconds=0.4, grpc=False)
    heard = talk(receiver, POST + b"content-length: 1000000\r\n\r\n", drops=repeat(b"x"), pause=0.05)
    assert heard.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"connection: close" in heard
    assert receiver.counted("neve_receiver_refusals_total", reason="slow_body") == 1
    assert receiver.counted("neve_receiver_inflight_bytes") == 0


def test_a_client_that_goes_away_is_forgotten(start: Callable[..., Running]) -> None:
    """What it had sent is given back to the budget."""
    receiver = start(grpc=False)
    with connected(receiver) as connection:
        connection.sendall(POST + b"content-length: 100000\r\n\r\n" + bytes(50_000))
        until(lambda: receiver.counted("neve_receiver_inflight_bytes") > 0)
    until(lambda: receiver.counted("neve_receiver_inflight_bytes") == 0)
    until(lambda: receiver.counted("neve_receiver_abandoned_total", transport="http") == 1)


def test_connections_are_counted(start: Callable[..., Running]) -> None:
    """One more than allowed is told to come back."""
    receiver = start(max_connections=2, grpc=False)
    # They are taken in the order in which they come.
    with connected(receiver), connected(receiver), connected(receiver) as third:
        heard = hears(third)
    assert heard.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"retry-after: 1\r\n" in heard
    until(lambda: receiver.post("/v1/traces", traces()).status == 200)


def test_requests_on_one_connection_are_answered_in_order(start: Callable[..., Running]) -> None:
    """Also when a client does not wait for the answers."""
    receiver = start(grpc=False)
    body = traces()
    good = POST + b"content-length: %d\r\n\r\n%s" % (len(body), body)
    bad = POST + b"content-length: 1\r\n\r\n\xff"
    last = POST + b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    heard = talk(receiver, good + bad + last)
    assert [answer[:3] for answer in heard.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400", b"200"]


@pytest.mark.parts
def test_bombs_stay_small(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A gigabyte of zeros in a small packet, a dozen times over both protocols: memory stays within the budget."""
    folder = tmp_path_factory.mktemp("bombs")
    zeros = bytes(1024 * MB)
    bombs = {"gzip": gzip.compress(zeros, 1), "zstd": zstandard.compress(zeros)}
    del zeros
    with receiver_process(folder, max_message_bytes=16 * MB, max_inflight_bytes=64 * MB) as (process, receiver):
        receiver.post("/v1/traces", traces())
        before = peak_bytes(process.pid)
        for _ in range(4):
            for name, bomb in bombs.items():
                assert receiver.post("/v1/traces", bomb, PROTOBUF | {"content-encoding": name}).status == 413
            with receiver.channel() as channel, pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(EXPORT)(bombs["gzip"])
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert peak_bytes(process.pid) - before < 150 * MB
        assert process.poll() is None


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024
