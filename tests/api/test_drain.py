"""The end of a receiver whose clients take their time."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.api.running import HOST, settings_for, until
from tests.api.test_grpc import EXPORT
from tests.telemetry import traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.api.running import LoopThread, Running

DRAIN_SECONDS = 1
HEADERS = (
    b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n"
)


@dataclass
class Unfinished:
    """A request at each door of a receiver, which ends when it may."""

    running: Running
    may_end: threading.Event

    def __enter__(self) -> Unfinished:
        self._clients = ExitStack()
        self._web = self._clients.enter_context(socket.create_connection((HOST, self.running.http_port)))
        self._web.sendall(HEADERS % len(traces()) + traces()[:1])
        channel = self._clients.enter_context(self.running.channel())
        begun = threading.Event()

        def nothing_yet() -> Iterator[bytes]:
            begun.set()
            self.may_end.wait()
            yield traces()

        channel.unary_unary(EXPORT)(b"", timeout=600)  # it is connected now
        self._call = channel.stream_unary(EXPORT).future(nothing_yet())
        assert begun.wait(600)
        until(lambda: self.running.counted("neve_receiver_inflight_bytes") > len(traces()))
        return self

    def __exit__(self, *_raised: object) -> None:
        self.may_end.set()
        self._clients.close()

    def finish(self) -> None:
        """Send the rest of both."""
        self.may_end.set()
        self._web.sendall(traces()[1:])

    def answers(self) -> tuple[bytes, bytes]:
        """What came over HTTP and over gRPC."""
        return self._web.recv(65_536).split(b"\r\n", 1)[0], self._call.result()


def test_what_never_ends_is_given_up(loop_thread: LoopThread, tmp_path: Path) -> None:
    """When the time that was set is over."""
    with ExitStack() as clients:
        with loop_thread.receiver(tmp_path, settings_for(tmp_path, drain_seconds=DRAIN_SECONDS)) as running:
            clients.enter_context(Unfinished(running, threading.Event()))
            began = time.monotonic()
        assert time.monotonic() - began >= DRAIN_SECONDS


def test_both_doors_are_closed_at_once(loop_thread: LoopThread, tmp_path: Path) -> None:
    """A request that has not ended at one of them does not keep the other one open."""
    receiver = ExitStack()
    running = receiver.enter_context(loop_thread.receiver(tmp_path, settings_for(tmp_path, drain_seconds=600)))
    with Unfinished(running, threading.Event()) as requests:
        closing = threading.Thread(target=receiver.close)
        closing.start()
        until(lambda: not any(map(is_open, (running.http_port, running.grpc_port))))
        assert closing.is_alive()
        requests.finish()
        closing.join()
        assert requests.answers() == (b"HTTP/1.1 200 OK", b"")


def is_open(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((HOST, port)).close()
    except ConnectionRefusedError:
        return False
    return True
