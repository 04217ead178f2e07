"""A receiver that is away, refuses, or never answers costs nothing but the telemetry, which is counted."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import structlog

from neve.app.telemetry import post
from neve.app.telemetry.config import TelemetryConfig
from neve.app.telemetry.outbox import BATCH, Away, Outbox, Refused
from neve.app.telemetry.traces import span
from neve.model.signals import Signal
from tests.api.running import LoopThread, settings_for
from tests.app.telemetry.landed import address, counted, eventually, landed

if TYPE_CHECKING:
    import io
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from tests.app.telemetry.conftest import Start


def dropped(signal: str, reason: str) -> float:
    """What was dropped so far."""
    return counted("neve_telemetry_dropped_total", signal=signal, reason=reason)


def free_port() -> int:
    """A port that nobody listens on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        port: int = sock.getsockname()[1]
        return port


def test_nobody_listens(start: Start, lines: io.StringIO) -> None:
    """Nobody waits for room, nor the end for its time; drops are counted, and the log says it once a signal."""
    full, stopped = dropped("traces", "full"), dropped("traces", "stopped")
    sending = start(f"http://127.0.0.1:{free_port()}", max_queue=100, drain_seconds=600)
    eventually(lambda: counted("neve_telemetry_queue", signal="traces") == 0)
    for _ in range(1000):
        with span("job"):
            pass
    assert dropped("traces", "full") - full == 900
    eventually(lambda: lines.getvalue().count("own telemetry is not taken") == 2)
    sending.close()
    assert dropped("traces", "stopped") - stopped == 100
    assert lines.getvalue().count("own telemetry is not taken") == 2


def test_a_receiver_that_never_answers_is_not_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes when the time for it is over, while the answer is still awaited."""
    monkeypatch.setattr(post, "TIMEOUT_SECONDS", 3600)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        stopped = dropped("traces", "stopped")
        sending = start(f"http://127.0.0.1:{silent.getsockname()[1]}", drain_seconds=0.3)
        with span("job"):
            pass
        sending.close()
        assert sending._spans._thread.is_alive()
        assert dropped("traces", "stopped") - stopped == 1


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


class Scripted:
    """A receiver that answers as it is told."""

    def __init__(self, *answers: Exception | int) -> None:
        self.answers = list(answers)
        self.sent: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> int:
        """Take a message, or not; all of it when nothing else was said."""
        self.sent.append(list(items))
        answer = self.answers.pop(0) if self.answers else len(items)
        if isinstance(answer, Exception):
            raise answer
        return answer


def outbox(script: Scripted, **config: object) -> Outbox[int]:
    """An outbox for numbers."""
    return Outbox("scripted", script, TelemetryConfig.model_validate({"interval_seconds": 0.02, **config}))


def test_what_was_not_taken_comes_again_in_its_order() -> None:
    """Nothing is lost while there is room, and nothing is sent twice after it was taken."""
    script = Scripted(Away("first"), Away("second"))
    box = outbox(script)
    for number in range(BATCH + 10):
        box.put(number)
    eventually(lambda: sum(map(len, script.sent[2:])) == BATCH + 10)
    box.end()
    box.wait(600)
    assert [number for message in script.sent[2:] for number in message] == list(range(BATCH + 10))


def test_partly_taken_and_refused_messages_are_done_with() -> None:
    """What the receiver did not take of them is counted."""
    before = dropped("scripted", "refused")
    script = Scripted(2, Refused("no"), RuntimeError("a bug"))
    box = outbox(script, interval_seconds=60)
    for number in range(3):
        box.put(number)
    box.end()
    box.wait(600)
    assert (script.sent, dropped("scripted", "refused") - before) == ([[0, 1, 2]], 1)
    for answer in (Refused("no"), RuntimeError("a bug")):
        other = Scripted(answer)
        box = outbox(other, interval_seconds=60)
        box.put(1)
        box.end()
        box.wait(600)
        assert other.sent == [[1]]
    assert dropped("scripted", "refused") - before == 3


def test_nobody_waits_while_a_message_is_under_way() -> None:
    """However long a receiver takes."""
    going, go_on, sent = threading.Event(), threading.Event(), threading.Event()

    def slow(items: Sequence[int]) -> int:
        going.set()
        go_on.wait()
        sent.set()
        return len(items)

    box: Outbox[int] = Outbox("scripted", slow, TelemetryConfig(interval_seconds=0.01, max_queue=5))
    box.put(0)
    assert going.wait(600)
    before = dropped("scripted", "full")
    for number in range(10):
        box.put(number)
    assert not sent.is_set()
    assert dropped("scripted", "full") - before == 6
    go_on.set()
    box.end()
    box.wait(600)
