"""Resends and equal records: what is a row of its own, and what has arrived before."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from neve.ingest import decoder
from neve.ingest.decoder import decode_all
from neve.ingest.deduplication import DuplicateFilter
from neve.lake.write.layout import PartitionSlice
from neve.model.signals import Signal
from neve.otlp import Decoded, Intake, decode
from neve.otlp.json import to_json, to_protobuf
from tests.telemetry import text, traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io import FileIO

NOW = 1_760_000_000_000_000_000
MILLISECOND = 1_000_000
Line = tuple[str, str, int, int]  # service, body, time, observed time
Message = tuple[Line, ...]

services = st.sampled_from(["cart", "shop"])
bodies = st.sampled_from(["ready", "retry"])
seconds = st.integers(0, 2).map(lambda number: NOW - number * 1000 * MILLISECOND)
coarse_lines = st.tuples(services, bodies, seconds, st.just(0) | seconds)
fine_lines = st.tuples(services, bodies, seconds, st.integers(NOW + 1001, NOW + 1003))


def messages_of(lines: st.SearchStrategy[Line]) -> st.SearchStrategy[list[Message]]:
    """Different messages, of few different lines, so that equal ones are in many of them."""
    return st.lists(st.lists(lines, min_size=1, max_size=5).map(tuple), min_size=1, max_size=6, unique=True)


def wire(message: Message) -> bytes:
    """A message of log records, a group for each."""
    groups = [
        ResourceLogs(
            resource=Resource(attributes=[text("service.name", service)]),
            scope_logs=[
                ScopeLogs(
                    log_records=[
                        LogRecord(time_unix_nano=time, observed_time_unix_nano=observed, body=text("", body).value)
                    ]
                )
            ],
        )
        for service, body, time, observed in message
    ]
    return ExportLogsServiceRequest(resource_logs=groups).SerializeToString()


class Table:
    """Rows as ingestion leaves them: decoded, without what has arrived before."""

    def __init__(self) -> None:
        self.sieve = DuplicateFilter(cast("FileIO", None), {})
        self.rows: Counter[Line] = Counter()

    def take(self, messages: list[bytes], received: int = NOW) -> int:
        """Take in messages together; how many rows they add."""
        decoded = decode_all(Signal.LOGS, pa.array(messages, pa.binary()), intake(received))
        new = self.sieve(PartitionSlice(None, pa.Table.from_batches([decoded.batch]))).rows
        names = ("service_name", "message", "time_unix_nano", "observed_time_unix_nano")
        self.rows.update(zip(*(new.column(name).to_pylist() for name in names), strict=True))
        return int(new.num_rows)


def intake(received: int = NOW) -> Intake:
    """What a receiver knows at a time."""
    return Intake(organization_id="acme", received_unix_nano=received)


def ids(messages: list[bytes]) -> list[bytes]:
    """The record ids of messages that are decoded together."""
    found: list[bytes] = decode(Signal.LOGS, messages, intake()).batch.column("record_id").to_pylist()
    return found


LINE = ("cart", "ready", NOW, 0)


def test_three_equal_lines_in_two_messages_are_three_rows() -> None:
    """Where a batch ended does not decide how many lines there are."""
    table = Table()
    assert table.take([wire((LINE, LINE)), wire((LINE,))]) == 3
    assert table.take([wire((LINE,)), wire((LINE, LINE))]) == 0


def test_equal_lines_of_a_later_batch_are_rows() -> None:
    """Also when they are taken in later than those that they equal."""
    table = Table()
    assert [table.take([wire((LINE, LINE))]), table.take([wire((LINE,))]), table.take([wire((LINE,))])] == [2, 1, 0]


@pytest.mark.slow
@given(messages=messages_of(coarse_lines | fine_lines.map(lambda line: (*line[:3], NOW + 1007))), data=st.data())
def test_rows_are_the_first_deliveries(messages: list[Message], data: st.DataObject) -> None:
    """Whatever is sent again, in whatever order and in whatever company, adds nothing; nothing is missing.

    Lines with a fine time are of one message each here: two of them that are equal to the nanosecond are one by design.
    """
    messages = _fine_lines_apart(messages)
    again = data.draw(st.lists(st.sampled_from(messages), max_size=6))
    deliveries = data.draw(st.permutations(messages + again))
    table = Table()
    while deliveries:
        size = data.draw(st.integers(1, len(deliveries)))
        table.take([wire(message) for message in deliveries[:size]], NOW + data.draw(st.integers(0, 9)))
        deliveries = deliveries[size:]
    assert table.rows == Counter(line for message in messages for line in message)


@pytest.mark.slow
@given(messages=messages_of(coarse_lines), data=st.data())
def test_ids_do_not_depend_on_neighbours_in_a_batch(messages: list[Message], data: st.DataObject) -> None:
    """A message decoded alone has the ids that it has among others, also when one of them breaks the decoder."""
    alone = {message: ids([wire(message)]) for message in messages}
    order = data.draw(st.permutations(messages))
    assert ids([wire(message) for message in order]) == [each for message in order for each in alone[message]]


@pytest.mark.slow
@given(
    lines=st.lists(
        st.tuples(services, bodies, seconds, st.integers(NOW + 257, NOW + 10**5)), min_size=1, max_size=8, unique=True
    ),
    seed=st.integers(0, 999),
)
def test_fine_times_survive_another_batching(lines: list[Line], seed: int) -> None:
    """Records with a time finer than a millisecond add nothing, however a resend is batched."""
    table = Table()
    assert table.take([wire(tuple(lines))]) == len(lines)
    random.Random(seed).shuffle(lines)
    middle = len(lines) // 2
    assert table.take([wire(tuple(part)) for part in (lines[:middle], lines[middle:]) if part]) == 0


def test_coarse_times_in_another_batching_are_never_lost() -> None:
    """Records with whole milliseconds only are there twice then: nothing tells them from new ones."""
    table = Table()
    other = ("cart", "retry", NOW, 0)
    assert table.take([wire((LINE, other))]) == 2
    assert table.take([wire((LINE,)), wire((other,))]) == 2


@pytest.mark.slow
@given(
    milliseconds=st.integers(946_684_800_000, NOW // MILLISECOND),
    by=st.sampled_from([lambda ms: int(ms / 1000 * 1e9), lambda ms: int(ms * 1e6), lambda ms: round(ms / 1000 * 1e9)]),
)
def test_milliseconds_that_were_floats_are_coarse(milliseconds: int, by: Callable[[int], int]) -> None:
    """Senders count in floating-point seconds; equal lines of theirs in two messages are two rows, too."""
    line = ("cart", "ready", by(milliseconds), 0)
    table = Table()
    assert table.take([wire((line, LINE)), wire((line,))]) == 3
    assert table.take([wire((line,)), wire((line, LINE))]) == 0


@pytest.mark.parametrize(
    ("time", "observed", "fine"),
    [
        (NOW, 0, False),
        (NOW + 5 * MILLISECOND, NOW + MILLISECOND, False),
        (NOW + 256, NOW - 256, False),
        (NOW + 257, 0, True),
        (NOW - 257, 0, True),
        (NOW, NOW + 1000, True),
        (0, NOW + 1000, True),
        (0, NOW, False),
    ],
)
def test_one_fine_time_is_enough(time: int, observed: int, fine: bool) -> None:
    """The own time or the observed one."""
    line = ("cart", "ready", time, observed)
    alone, [among, _other] = ids([wire((line,))]), ids([wire((line, LINE))])
    assert (alone == [among]) is fine


def test_a_resend_is_known_though_less_of_it_is_refused() -> None:
    """A record that lay too far in the future counts as part of its message, then and later."""
    ahead = ("cart", "ready", NOW + 2 * 86_400_000 * MILLISECOND, 0)
    table = Table()
    assert table.take([wire((LINE, ahead))]) == 1
    assert table.take([wire((LINE, ahead))], received=ahead[2]) == 1
    assert table.rows == Counter([LINE, ahead])


def test_a_resend_is_known_in_either_encoding() -> None:
    """A message as JSON has the ids that it has as protobuf."""
    message = wire((LINE, ("shop", "retry", NOW, 0)))
    [other] = to_protobuf(Signal.LOGS, to_json(Signal.LOGS, message).encode()).messages.to_pylist()
    assert ids([message]) == ids([other])


def test_ids_are_the_same_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """When one message breaks the decoder the others keep their ids."""
    wires = [wire((LINE, LINE)), b"poison", wire((LINE,)), wire((("shop", "ready", NOW, 0),))]

    def brittle(signal: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
        if b"poison" in messages.to_pylist():
            raise RuntimeError("unforeseen")
        return decode(signal, messages, intake)

    monkeypatch.setattr(decoder, "decode", brittle)
    found = decode_all(Signal.LOGS, pa.array(wires, pa.binary()), intake()).batch.column("record_id").to_pylist()
    assert found == ids([wires[0], wires[2], wires[3]])


def test_lines_without_a_time_are_never_taken_for_resends() -> None:
    """Senders without a clock repeat themselves: the same message again is as many rows again."""
    table = Table()
    timeless = wire((("cart", "tick", 0, 0),))
    assert [table.take([timeless, timeless]), table.take([timeless])] == [2, 1]


def test_spans_are_known_in_any_batching() -> None:
    """A span is its content: the message that it arrives in does not count."""
    both, first = (decode(Signal.TRACES, [traces(count)], intake()).batch for count in (2, 1))
    assert both.column("record_id")[0] == first.column("record_id")[0]


def _fine_lines_apart(messages: list[Message]) -> list[Message]:
    """The same messages, with each fine line at a nanosecond of its own."""
    number = iter(range(1, 10**5))
    return [
        tuple((*line[:3], NOW + next(number)) if line[3] % MILLISECOND else line for line in message)
        for message in messages
    ]
