"""The end of a receiver whose clients take their time."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.api.running import HOST, settings_for
from tests.api.test_grpc import EXPORT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.api.running import LoopThread

DRAIN_SECONDS = 2
HALF_A_REQUEST = (
    b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: 9\r\n\r\nx"
)


def test_both_doors_are_closed_at_once(loop_thread: LoopThread, tmp_path: Path) -> None:
    """A request that never ends at each of them holds the receiver up for the time that was set, not for twice that."""
    ends = threading.Event()

    def nothing_yet() -> Iterator[bytes]:
        ends.wait(10 * DRAIN_SECONDS)
        yield from ()

    settings = settings_for(tmp_path, drain_seconds=DRAIN_SECONDS)
    with ExitStack() as clients:
        clients.callback(ends.set)
        with loop_thread.receiver(tmp_path, settings) as running:
            web = clients.enter_context(socket.create_connection((HOST, running.http_port)))
            web.sendall(HALF_A_REQUEST)
            channel = clients.enter_context(running.channel())
            channel.unary_unary(EXPORT)(b"", timeout=20)  # it is connected now
            call = channel.stream_unary(EXPORT).future(nothing_yet())
            time.sleep(0.3)
            assert not call.done()
            began = time.monotonic()
        assert DRAIN_SECONDS <= time.monotonic() - began < 1.8 * DRAIN_SECONDS
