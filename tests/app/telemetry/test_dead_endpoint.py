"""A receiver that is away, refuses, or never answers costs nothing but the telemetry, which is counted."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider

from neve.app.telemetry import exporters
from neve.app.telemetry.config import TelemetryConfig
from neve.app.telemetry.exporters import BATCH, MessageRejected, ReceiverUnavailable, SpanQueue, close_queues
from neve.app.telemetry.tracing import span
from neve.model.signals import Signal
from tests.api.running import LoopThread, settings_for
from tests.app.telemetry.landed import address, counted, eventually, landed
from tests.parts.process import free_port

if TYPE_CHECKING:
    import io
    from collections.abc import Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from neve.app.telemetry.exporters import Sender
    from tests.app.telemetry.conftest import Start


HOST_PORT = ("127.0.0.1", 0)


def dropped(signal: str, reason: str) -> float:
    """What was dropped so far."""
    return counted("neve_telemetry_dropped_total", signal=signal, reason=reason)


def test_nobody_listens(start: Start, lines: io.StringIO) -> None:
    """Nobody waits for room, nor the end for its time; drops are counted, and the log says it once a signal."""
    full, stopped = dropped("traces", "full"), dropped("traces", "stopped")
    sending = start(f"http://127.0.0.1:{free_port()}", max_queue=100, drain_seconds=600)
    eventually(lambda: counted("neve_telemetry_queue", signal="traces") == 0)
    for _ in range(1000):
        with span("job"):
            pass
    assert dropped("traces", "full") - full == 900
    eventually(lambda: lines.getvalue().count("own telemetry is not accepted") == 2)
    sending.close()
    assert dropped("traces", "stopped") - stopped == 100
    assert lines.getvalue().count("own telemetry is not accepted") == 2


def test_a_receiver_that_never_answers_is_not_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes when the time for it is over, while the answer is still awaited."""
    monkeypatch.setattr(exporters, "TIMEOUT_SECONDS", 3600)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        stopped = dropped("traces", "stopped")
        sending = start(f"http://127.0.0.1:{silent.getsockname()[1]}", drain_seconds=0.3)
        with span("job"):
            pass
        sending.close()
        assert counted("neve_telemetry_queue", signal="traces") == 0
        assert dropped("traces", "stopped") - stopped == 1


@pytest.mark.slow
def test_what_waited_is_sent_when_the_receiver_is_there(loop_thread: LoopThread, tmp_path: Path, start: Start) -> None:
    """A group starts in any order: whoever speaks before the receiver listens is heard."""
    port = free_port()
    start(f"http://127.0.0.1:{port}")
    structlog.get_logger("neve.serve").info("early")
    with span("early"):
        pass
    eventually(lambda: counted("neve_telemetry_failures_total", signal="traces") > 0)
    with loop_thread.receiver(tmp_path, settings_for(tmp_path, grpc=False, http_port=port)) as running:
        eventually(lambda: len(landed(running, Signal.TRACES)) == 1)
        eventually(lambda: "early" in [row["message"] for row in landed(running, Signal.LOGS)])


def test_a_refusal_is_counted(loop_thread: LoopThread, tmp_path: Path, start: Start) -> None:
    """A receiver that asks for a key, and is shown none, takes nothing; it is not asked again for the same spans."""
    before = dropped("traces", "refused")
    with loop_thread.receiver(tmp_path, settings_for(tmp_path, grpc=False, auth="keys")) as running:
        start(address(running))
        with span("job"):
            pass
        eventually(lambda: dropped("traces", "refused") - before == 1)
    assert running.frames() == []


def test_headers_and_the_key_are_sent(start: Start) -> None:
    """Together with the mark that says that it is Neve's own."""
    heard: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def listen() -> None:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(65_536))
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

        listening = threading.Thread(target=listen)
        listening.start()
        place = f"http://127.0.0.1:{server.getsockname()[1]}/otlp/"
        sending = start(None, endpoint=place, headers={"Authorization": "Basic abc"}, key="nk_secret")
        with span("job"):
            pass
        listening.join(600)
        sending.close()
    assert heard[0].startswith(b"POST /otlp/v1/traces HTTP/1.1\r\n")
    lines = heard[0].lower().split(b"\r\n")
    assert {b"authorization: basic abc", b"x-api-key: nk_secret", b"x-neve-telemetry: 1"} <= set(lines)


def test_a_redirect_is_a_refusal(start: Start) -> None:
    """The key is not sent to another server, and the spans are not counted as sent."""
    refused, sent = dropped("traces", "refused"), counted("neve_telemetry_sent_total", signal="traces")
    with closing(socket.create_server(("127.0.0.1", 0))) as server, closing(socket.create_server(HOST_PORT)) as other:

        def listen() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                place = f"http://127.0.0.1:{other.getsockname()[1]}/"
                head = f"HTTP/1.1 307 Moved\r\nlocation: {place}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                connection.sendall(head.encode())

        listening = threading.Thread(target=listen)
        listening.start()
        sending = start(None, endpoint=f"http://127.0.0.1:{server.getsockname()[1]}", key="nk_secret")
        with span("job"):
            pass
        listening.join(600)
        eventually(lambda: dropped("traces", "refused") - refused == 1)
        sending.close()
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert counted("neve_telemetry_sent_total", signal="traces") == sent


class Scripted:
    """A receiver that answers as it is told."""

    def __init__(self, *answers: Exception | int) -> None:
        self.answers = list(answers)
        self.sent: list[list[str]] = []

    def send(self, items: Sequence[ReadableSpan]) -> int:
        """Take a message, or not; all of it when nothing else was said."""
        self.sent.append([item.name for item in items])
        answer = self.answers.pop(0) if self.answers else len(items)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Nothing is under way."""


def queue_of(sender: Sender, **config: object) -> SpanQueue:
    """A queue of spans."""
    return SpanQueue(sender, TelemetryConfig.model_validate({"interval_seconds": 0.02, **config}))


def put(queue: SpanQueue, names: Sequence[str]) -> None:
    """End spans of these names."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(queue)
    for name in names:
        provider.get_tracer("test").start_span(name).end()


def close(queue: SpanQueue) -> None:
    """Wait until everything is sent."""
    close_queues([queue], 600, time.monotonic)


def test_what_was_not_taken_comes_again_in_its_order() -> None:
    """Nothing is lost while there is room, and nothing is sent twice after it was taken."""
    script = Scripted(ReceiverUnavailable("first"), ReceiverUnavailable("second"))
    queue, names = queue_of(script), [str(number) for number in range(BATCH + 10)]
    put(queue, names)
    eventually(lambda: sum(map(len, script.sent[2:])) == len(names))
    close(queue)
    assert [name for message in script.sent[2:] for name in message] == names


def test_partly_taken_and_refused_messages_are_done_with() -> None:
    """What the receiver did not take of them is counted."""
    before = dropped("traces", "refused")
    script = Scripted(2)
    queue = queue_of(script, interval_seconds=60)
    put(queue, "abc")
    close(queue)
    assert (script.sent, dropped("traces", "refused") - before) == ([["a", "b", "c"]], 1)
    for answer in (MessageRejected("no"), RuntimeError("a bug")):
        other = Scripted(answer)
        queue = queue_of(other, interval_seconds=60)
        put(queue, "a")
        close(queue)
        assert other.sent == [["a"]]
    assert dropped("traces", "refused") - before == 3


def test_the_end_tries_a_dead_receiver_once() -> None:
    """However many messages wait."""
    script, stopped = Scripted(*[ReceiverUnavailable("away")] * 10), dropped("traces", "stopped")
    queue = queue_of(script, interval_seconds=3600)
    put(queue, ["x"] * (3 * BATCH))
    eventually(lambda: len(script.sent) == 1)
    close(queue)
    assert len(script.sent) <= 2
    assert dropped("traces", "stopped") - stopped == 3 * BATCH
    put(queue, "late")
    assert dropped("traces", "stopped") - stopped == 3 * BATCH + 4


def test_nobody_waits_while_a_message_is_under_way() -> None:
    """However long a receiver takes."""
    going, go_on, sent = threading.Event(), threading.Event(), threading.Event()

    class Slow(Scripted):
        def send(self, items: Sequence[ReadableSpan]) -> int:
            going.set()
            go_on.wait()
            sent.set()
            return len(items)

    queue = queue_of(Slow(), interval_seconds=0.01, max_queue=5)
    put(queue, "a")
    assert going.wait(600)
    before = dropped("traces", "full")
    put(queue, "0123456789")
    assert not sent.is_set()
    assert dropped("traces", "full") - before == 6
    go_on.set()
    close(queue)
