"""The live generator: a reel that plays as if it were now, and a sender that leaves nothing out."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from neve.demo.live import LiveSender, Playback
from neve.demo.message_template import GRAIN, DraftMode, MessageTemplate, Pace, make_unique_time
from neve.demo.otlp_encoding import logs_message, logs_request
from neve.demo.recording import Recording, make_recording
from neve.errors import ConfigError
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.otlp.json import to_protobuf

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from neve.demo.logs import Log

RATE = 400.0
RECORDS = 800
NOW = 1_790_000_000_000_000_000
SECOND = 1_000_000_000
KEY_COLUMNS = {Signal.TRACES: "span_id", Signal.LOGS: "time_unix_nano", Signal.METRICS: "time_unix_nano"}


@pytest.fixture(scope="module")
def reel() -> Recording:
    """A small reel."""
    return make_recording(RATE, records=RECORDS)


@pytest.fixture(scope="module")
def tape(reel: Recording) -> Playback:
    """The reel from a moment on."""
    return Playback(reel, NOW, salt=77)


def test_a_template_sets_times_and_ids_and_nothing_else() -> None:
    """Whatever stands around them."""

    def draft(mode: DraftMode) -> bytes:
        return b"head" + mode.time(-5).to_bytes(8, "little") + b"|" + mode.identity(b"rest") + b"tail"

    filled = MessageTemplate.of(draft).message(1_000, 0x01020304)
    assert filled == b"head" + (995).to_bytes(8, "little") + b"|" + b"\x01\x02\x03\x04rest" + b"tail"


@pytest.mark.parametrize("drafts", [(b"a", b"ab"), (b"abc", b"xyz")])
def test_drafts_that_differ_elsewhere_are_refused(drafts: tuple[bytes, bytes]) -> None:
    """A length or a text that depends on the ink would be broken in every message."""
    with pytest.raises(ValueError, match="expected"):
        MessageTemplate.of(lambda mode: drafts[mode is DraftMode.INVERTED])


@pytest.mark.slow
def test_logs_are_the_same_in_both_encodings(logs: list[Log]) -> None:
    """Every body and attribute, as a receiver reads them."""
    message, text = logs_message(logs).SerializeToString(), json.dumps(logs_request(logs)).encode()
    intake = Intake("shop", NOW)
    both = [decode(Signal.LOGS, wires, intake).batch for wires in ([message], to_protobuf(Signal.LOGS, text).messages)]
    assert both[0].equals(both[1])


@given(st.integers(-(10**12), 10**12), st.integers(0, GRAIN - 1))
def test_a_number_changes_a_time_by_less_than_a_grain(nanos: int, number: int) -> None:
    """And can be read from it."""
    at = make_unique_time(nanos, number)
    assert abs(at - nanos) < GRAIN
    assert at % GRAIN == number


def test_a_rate_of_nothing_is_refused() -> None:
    """With the value."""
    with pytest.raises(ConfigError, match="the rate is 0 records a second"):
        Pace(0)


@pytest.mark.slow
def test_every_record_is_one_that_neve_takes_and_has_the_key_that_the_tape_says(tape: Playback) -> None:
    """Of all three signals, over more than one lap, no two with the same."""
    for signal in Signal:
        found: list[int] = []
        for number in range(2 * len(tape.recording.bodies[signal])):
            batch = _decoded(tape, signal, number)
            keys = batch.column(KEY_COLUMNS[signal]).to_pylist()
            numbers = [int.from_bytes(key, "big") if isinstance(key, bytes) else key for key in keys]
            assert Counter(numbers) == Counter(tape.keys(signal, number).tolist())
            assert len(numbers) == tape.records(signal, number)
            found += numbers
        assert len(set(found)) == len(found) >= 2 * RECORDS


@pytest.mark.slow
def test_records_are_of_the_moment_in_which_they_are_sent(tape: Playback) -> None:
    """None is of the future; most are a second old at most, and the rate is what was asked for."""
    for signal in Signal:
        count, ages = len(tape.recording.bodies[signal]), []
        for number in range(count):
            due, keys = tape.due(signal, number), _times(tape, signal, number)
            assert max(keys) <= due
            ages += [(due - key) / SECOND for key in keys]
        assert np.median(ages) < 1.0, signal
        assert tape.due(signal, count) - tape.due(signal, 0) == tape.recording.nanos
        assert tape.recording.nanos / SECOND == pytest.approx(len(ages) / RATE, rel=0.01)


def test_a_trace_keeps_its_shape(tape: Playback) -> None:
    """A child lies in its parent, which is of the same trace, or names none that is not there."""
    spans = [
        span
        for number in range(len(tape.recording.bodies[Signal.TRACES]))
        for group in ExportTraceServiceRequest.FromString(tape.message(Signal.TRACES, number)).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]
    by_id = {span.span_id: span for span in spans}
    children = [span for span in spans if span.parent_span_id]
    assert children
    for span in children:
        parent = by_id[span.parent_span_id]
        assert parent.trace_id == span.trace_id
        assert parent.start_time_unix_nano <= span.start_time_unix_nano
        for event in span.events:
            assert span.start_time_unix_nano <= event.time_unix_nano <= span.end_time_unix_nano


def test_a_log_belongs_to_a_span_of_the_same_lap(tape: Playback) -> None:
    """By its id, and to within the grain by its time."""
    spans = _rows(tape, Signal.TRACES, ("span_id", "start_time_unix_nano", "end_time_unix_nano"))
    times = {span_id: (start, end) for span_id, start, end in spans}
    logs = [row for row in _rows(tape, Signal.LOGS, ("span_id", "time_unix_nano")) if row[0]]
    assert len(logs) > RECORDS / 2
    for span_id, at in logs:
        start, end = times[span_id]
        assert start - GRAIN <= at <= end + GRAIN


def test_a_point_counts_from_before_its_time(tape: Playback) -> None:
    """Whether it is a change or a total; examples are of traces, and not of the future."""
    examples = 0
    for number in range(len(tape.recording.bodies[Signal.METRICS])):
        message = ExportMetricsServiceRequest.FromString(tape.message(Signal.METRICS, number))
        for metric in (m for r in message.resource_metrics for s in r.scope_metrics for m in s.metrics):
            for point in getattr(metric, str(metric.WhichOneof("data"))).data_points:
                assert point.start_time_unix_nano < point.time_unix_nano
                for example in getattr(point, "exemplars", ()):
                    examples += 1
                    assert abs(example.time_unix_nano - tape.due(Signal.METRICS, number)) < 3600 * SECOND
    assert examples


def test_what_is_refused_for_now_is_sent_again_unchanged(reel: Recording) -> None:
    """Also when a connection breaks; every acknowledged message is told of once, and times are those of now."""
    told: list[tuple[Signal, int]] = []
    with _receiver() as (address, taken):
        live = LiveSender(reel, [address], lambda signal, number: told.append((signal, number)))
        live.start()
        deadline = time.monotonic() + 600
        while min(Counter(signal for signal, _ in told)[kind] for kind in Signal) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert live.stop()
    assert live.sent.retries >= 2
    assert not live.sent.refused
    assert Counter(told) == dict.fromkeys(told, 1)
    assert {(signal, live.playback.message(signal, number)) for signal, number in told} == set(taken)
    assert live.sent.messages == len(told)
    assert abs(live.playback.due(*told[0]) - time.time_ns()) < 3600 * SECOND


def test_what_is_refused_for_good_is_counted_and_said(reel: Recording) -> None:
    """And not sent again."""
    with _receiver(status=400) as (address, taken):
        live = LiveSender(reel, [address])
        live.start()
        deadline = time.monotonic() + 600
        while live.sent.refused < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        live.stop()
    assert not taken
    assert live.sent.refused >= 3
    assert "HTTP 400" in live.sent.refusals[0]
    assert live.sent.records == dict.fromkeys(Signal, 0)


def test_another_receiver_is_tried_where_one_is_gone(reel: Recording) -> None:
    """As a load balancer would."""
    told = threading.Event()
    with _receiver() as (address, _taken):
        live = LiveSender(reel, ["http://127.0.0.1:9", address], lambda _signal, _number: told.set())
        live.start()
        assert told.wait(600)
        live.stop()


def test_an_address_that_is_none_is_refused(reel: Recording) -> None:
    """Before anything is sent."""
    with pytest.raises(ConfigError, match="expected http://host:port"):
        LiveSender(reel, ["127.0.0.1:4318"])


@pytest.fixture(autouse=True)
def _short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait half a second for every retry."""
    monkeypatch.setattr("neve.demo.live.PAUSE_SECONDS", 0.02)


class _receiver:  # noqa: N801 - used as a function
    """A receiver that first says to come back, then hangs up once, and then takes everything."""

    def __init__(self, status: int = 200) -> None:
        self._status = status

    def __enter__(self) -> tuple[str, list[tuple[Signal, bytes]]]:
        taken: list[tuple[Signal, bytes]] = []
        moods = iter([429, 0])
        status = self._status

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                mood = next(moods, status)
                if not mood:
                    self.close_connection = True
                    return
                if mood == 200:
                    taken.append((Signal(self.path.rpartition("/")[2]), body))
                self.send_response(mood)
                self.send_header("content-length", "0")
                if mood == 429:
                    self.send_header("retry-after", "0")
                self.end_headers()

            def log_message(self, *_args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}", taken

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _decoded(tape: Playback, signal: Signal, number: int) -> pa.RecordBatch:
    found = decode(signal, [tape.message(signal, number)], Intake("shop", NOW + 10**15))
    assert not found.rejected
    return found.batch


def _rows(tape: Playback, signal: Signal, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    for number in range(len(tape.recording.bodies[signal])):
        batch = _decoded(tape, signal, number)
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def _times(tape: Playback, signal: Signal, number: int) -> list[int]:
    column = "end_time_unix_nano" if signal is Signal.TRACES else "time_unix_nano"
    times: list[int] = _decoded(tape, signal, number).column(column).to_pylist()
    return times


@pytest.mark.slow
def test_the_incident_of_a_lap() -> None:
    """Services are healthy for the most part of a lap, and the first failed request of each lap is known."""
    made = make_recording(50.0, has_incident=True)
    assert made.failure is not None
    assert made.failure.service == "payment"
    assert 0.2 * made.nanos < made.failure.nanos < 0.5 * made.nanos
    tape = Playback(made, NOW, salt=1)
    began = tape.find_failure(NOW + made.nanos)
    assert began is not None
    assert NOW < began < NOW + made.nanos
    assert tape.find_failure(began - 1) is None
    assert tape.find_failure(began + made.nanos - 1) == began
    assert tape.find_failure(began + made.nanos) == began + made.nanos


def test_a_recording_without_an_incident_has_no_failure(tape: Playback) -> None:
    """Its laps are all alike."""
    assert tape.find_failure(NOW + 10 * tape.recording.nanos) is None
