"""Check of an OTLP message: count its records, and those of them that ingestion will reject.

This is not decoding. It parses the few fields that decide, with handlers for OTLP from which most fields were
removed: a parser steps over unknown fields, at a fraction of the cost of decoding. Fields are only ever left out,
so what these handlers can't parse, the full ones can't either. The rules are those of `neve.otlp.validation` on bare
buffers, without Arrow's overhead; a property test compares the two. The check may let a record pass that decoding
rejects (that one is quarantined later, and only its client was not notified), but it refuses nothing that decoding
accepts. The search for malformed records is bounded, so that an attacker can't choose how long it takes.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from ptars import HandlerPool

from neve.model.signals import Signal
from neve.otlp.envelope import NAMES
from neve.otlp.protobuf import MESSAGES, MODULES, POINTS, RECORDS, Handler, find_unsafe, other_rows, read_messages
from neve.otlp.validation import MAX_INT64
from neve.receive.refusal import Refusal, Verdict, malformed_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.protobuf.message import Message

    from neve.otlp.decode_result import Intake


KINDS = tuple(POINTS)
TIME = frozenset({"time_unix_nano"})
GROUP = frozenset({"resource", "scope_spans", "scope_logs", "scope_metrics", "schema_url"})
SCOPE = frozenset({"scope", "spans", "log_records", "metrics", "schema_url"})
CHECKED_FIELDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("ResourceSpans", "ResourceLogs", "ResourceMetrics"), GROUP),
    **dict.fromkeys(("ScopeSpans", "ScopeLogs", "ScopeMetrics"), SCOPE),
    "Span": frozenset({"trace_id", "span_id", "start_time_unix_nano"}),
    "LogRecord": frozenset({"time_unix_nano", "observed_time_unix_nano"}),
    "Metric": frozenset({"name", *KINDS}),
    **dict.fromkeys(("Gauge", "Sum", "Histogram", "ExponentialHistogram", "Summary"), frozenset({"data_points"})),
    **{name.rpartition(".")[2]: TIME for name in POINTS.values()},
}
# Left as bytes: the fields that a group shares are not checked here.
OPAQUE = frozenset({"resource", "scope"})
PARTED = OPAQUE | {"spans", "log_records", "metrics", "data_points"}


@cache
def reduced_handler(name: str, *, parted: bool = False) -> Handler:
    """Return the handler of a reduced message. `parted` leaves records and points as bytes, to parse each by itself."""
    pool, handlers = _pools(parted)
    found: Handler = handlers.get_for_message(pool.FindMessageTypeByName(f"opentelemetry.proto.{name}"))
    return found


@cache
def reduced_class(name: str, *, parted: bool = False) -> type[Message]:
    """Return the Python class of a reduced message. Protobuf's own reader has limits that the handlers lack."""
    pool, _handlers = _pools(parted)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"opentelemetry.proto.{name}"))


@cache
def _pools(parted: bool) -> tuple[descriptor_pool.DescriptorPool, HandlerPool]:
    opaque = PARTED if parted else OPAQUE
    pool = descriptor_pool.DescriptorPool()
    for module in MODULES:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            if message.name in CHECKED_FIELDS:
                _reduce(message, opaque)
        pool.Add(file)
    services = (module.DESCRIPTOR.name for module in MODULES[-3:])
    return pool, HandlerPool([pool.FindFileByName(name) for name in services])


def _reduce(message: descriptor_pb2.DescriptorProto, opaque: frozenset[str]) -> None:
    fields = list(_checked_fields(message, opaque))
    oneofs = sorted({member.oneof_index for member in fields if member.HasField("oneof_index")})
    declared = [message.oneof_decl[index] for index in oneofs]
    for member in fields:
        if member.HasField("oneof_index"):
            member.oneof_index = oneofs.index(member.oneof_index)
    del message.nested_type[:]
    del message.field[:]
    del message.oneof_decl[:]
    message.oneof_decl.extend(declared)
    message.field.extend(fields)


def _checked_fields(
    message: descriptor_pb2.DescriptorProto, opaque: frozenset[str]
) -> Iterator[descriptor_pb2.FieldDescriptorProto]:
    for member in message.field:
        if member.name not in CHECKED_FIELDS[message.name]:
            continue
        copy = descriptor_pb2.FieldDescriptorProto()
        copy.CopyFrom(member)
        if member.name in opaque:
            copy.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
            copy.ClearField("type_name")
        yield copy


Mask = npt.NDArray[np.bool_]


def bad_ids(ids: pa.BinaryArray, width: int) -> Mask:
    """Return a mask of ids that have the wrong width or are all zeros."""
    offsets, data = _offsets(ids), ids.buffers()[2]
    if not len(ids) or data is None:
        return np.ones(len(ids), dtype=np.bool_)
    wrong: Mask = np.not_equal(offsets[1:] - offsets[:-1], width)
    values = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    if np.count_nonzero(wrong):
        right = np.flatnonzero(~wrong)
        places = (offsets[right] - offsets[0])[:, None] + np.arange(width)
        wrong[right] = ~values[places].any(axis=1)
        return wrong
    words = values.view(np.uint64).reshape(len(ids), width // 8)
    zero: Mask = np.equal(np.bitwise_or.reduce(words, axis=1), 0)
    return zero


def no_time(unix_nanos: pa.UInt64Array) -> Mask:
    """Return a mask of times that were not sent."""
    missing: Mask = _numbers(unix_nanos) == 0
    return missing


def in_future(unix_nanos: pa.UInt64Array, intake: Intake) -> Mask:
    """Return a mask of times that are too far after the time of arrival."""
    late: Mask = _numbers(unix_nanos) > np.uint64(min(intake.latest_unix_nano, MAX_INT64))
    return late


def no_text(texts: pa.StringArray) -> Mask:
    """Return a mask of empty texts."""
    offsets = _offsets(texts)
    empty: Mask = np.equal(offsets[1:], offsets[:-1])
    return empty


def _offsets(array: pa.BinaryArray | pa.StringArray) -> npt.NDArray[np.int32]:
    if not len(array):
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]


def _numbers(array: pa.UInt64Array) -> npt.NDArray[np.uint64]:
    numbers: npt.NDArray[np.uint64] = array.to_numpy(zero_copy_only=True)
    return numbers


MAX_BAD_ROWS = 100  # malformed records that are isolated; a message with more is malformed as a whole


def drop_bad_rows(name: str, column: pa.BinaryArray, *, parted: bool = False) -> tuple[pa.RecordBatch, int]:
    """Return the rows that parse as reduced messages, and the number of others; raises `Refusal` above the limit."""
    harmful = find_unsafe(reduced_class(name, parted=parted), column)
    if len(harmful) > MAX_BAD_ROWS:
        raise _too_many()
    column = column.take(pa.array(other_rows(len(column), harmful))) if harmful else column
    wire = reduced_handler(name, parted=parted)
    bad = _find_bad_rows(wire, column)
    if bad:
        column = column.take(pa.array(other_rows(len(column), bad)))
    return read_messages(wire, column), len(bad) + len(harmful)


def _find_bad_rows(wire: Handler, column: pa.BinaryArray) -> list[int]:
    """Return the rows that can't be parsed, found by bisection."""
    bad: list[int] = []
    waiting = [(0, len(column))] if len(column) else []
    while waiting:
        start, size = waiting.pop()
        if _can_parse(wire, column.slice(start, size)):
            continue
        if size > 1:
            half = size // 2
            waiting += [(start + half, size - half), (start, half)]
            continue
        bad.append(start)
        if len(bad) > MAX_BAD_ROWS:
            raise _too_many()
    return bad


def _can_parse(wire: Handler, column: pa.BinaryArray) -> bool:
    try:
        read_messages(wire, column)
    except ValueError:
        return False
    return True


def _too_many() -> Refusal:
    return malformed_error(f"more than {MAX_BAD_ROWS} records of the message are malformed")


# A record may be two bytes long on the wire and many in memory; above this, records are counted before they are parsed.
LARGE = 4 * 1024 * 1024

Failures = list[tuple[str, "Mask"]]


@dataclass
class Checked:
    """Number of records of a message, of rejected records by reason, and for some reasons the detail of the first."""

    records: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    details: dict[str, str] = field(default_factory=dict)

    def add_rejected(self, reason: str, detail: str, count: int) -> None:
        """Count records that were rejected before the check."""
        self.records += count
        self.rejected[reason] += count
        self.details.setdefault(reason, detail)

    def add_malformed(self, count: int) -> None:
        """Count records that can't be parsed."""
        self.records += count
        if count:
            self.rejected["malformed_record"] += count

    def add(self, count: int, failures: Failures) -> None:
        """Count records, and each that fails a check under its first reason."""
        self.records += count
        seen: Mask | None = None
        for reason, failed in failures:
            if not np.count_nonzero(failed):
                continue
            fresh = failed if seen is None else failed & ~seen
            seen = failed if seen is None else failed | seen
            self.rejected[reason] += int(np.count_nonzero(fresh))
        if seen is not None:
            self.rejected = +self.rejected  # drops reasons that were never the first


class MalformedPart(Exception):
    """Raised when a part of a message is malformed, and the caller has no time to find it."""


def check_message(
    signal: Signal, message: bytes, intake: Intake, max_records: int, *, is_quick: bool = False
) -> Checked:
    """Check a message; raises `Refusal` if it can't be parsed or has too many records.

    The search for malformed records takes many times longer than the check. `is_quick` raises `MalformedPart` instead.
    """
    checked = Checked()
    records = _parse_records(signal, _column(message))
    if records is None:
        if is_quick:
            raise MalformedPart
        records = _isolate_records(signal, _column(message), max_records, checked)
    for count, failures in _parts(signal, records, intake, max_records, checked):
        checked.add(count, failures)
    check_count(checked.records, max_records)
    return checked


def _parse_records(signal: Signal, column: pa.BinaryArray) -> pa.StructArray | None:
    """Return the records of a message, or nothing if a part of it is malformed or if it is too large to be parsed."""
    name = MESSAGES[signal]
    if column.nbytes <= LARGE and not find_unsafe(reduced_class(name), column):
        with suppress(ValueError):
            return _open(signal, read_messages(reduced_handler(name), column))
    return None


def _isolate_records(signal: Signal, column: pa.BinaryArray, max_records: int, checked: Checked) -> pa.StructArray:
    """Return the records that can be parsed, and count the others."""
    name = MESSAGES[signal]
    try:
        if found := find_unsafe(reduced_class(name, parted=True), column):
            raise ValueError(found[0])
        wires = _open(signal, read_messages(reduced_handler(name, parted=True), column))
    except ValueError as error:
        raise malformed_error(f"the body is not an OTLP message of {signal}: {error}") from None
    check_count(len(wires), max_records)
    batch, bad = drop_bad_rows(RECORDS[signal], wires, parted=True)
    checked.add_malformed(bad)
    return batch.to_struct_array()


def _column(message: bytes) -> pa.BinaryArray:
    """Return a column of one message, without a copy."""
    offsets = np.array([0, len(message)], dtype=np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(message)])


def _open(signal: Signal, batch: pa.RecordBatch) -> pa.Array:
    """Return all records of one message.

    Its lists are never null, and their offsets begin at the first value, so the values of the lists are all records.
    """
    _resources, scopes, records = NAMES[signal]
    return batch.column(0).values.field(scopes).values.field(records).values


def _parts(
    signal: Signal, records: pa.StructArray, intake: Intake, max_records: int, checked: Checked
) -> Iterator[tuple[int, Failures]]:
    if signal is not Signal.METRICS:
        yield len(records), FAILURES[signal](records, intake)
        return
    for kind in KINDS:
        lists = records.field(kind).field("data_points")
        points = lists.flatten()
        check_count(checked.records + len(points), max_records)
        if len(points):
            yield _points(kind, points, records.field("name").take(pc.list_parent_indices(lists)), intake, checked)


def _points(
    kind: str, points: pa.Array, names: pa.StringArray, intake: Intake, checked: Checked
) -> tuple[int, Failures]:
    if pa.types.is_binary(points.type):
        batch, bad = drop_bad_rows(POINTS[kind], points)
        checked.add_malformed(bad)
        points = batch.to_struct_array()
    times = points.field("time_unix_nano")
    failures = [("missing_time", no_time(times)), ("timestamp_in_future", in_future(times, intake))]
    if len(names) == len(points):  # else the names of the points are not known here
        failures.insert(0, ("missing_metric_name", no_text(names)))
    return len(points), failures


def _span_failures(spans: pa.StructArray, intake: Intake) -> Failures:
    start = spans.field("start_time_unix_nano")
    return [
        ("invalid_trace_id", bad_ids(spans.field("trace_id"), 16)),
        ("invalid_span_id", bad_ids(spans.field("span_id"), 8)),
        ("missing_time", no_time(start)),
        ("timestamp_in_future", in_future(start, intake)),
    ]


def _log_failures(logs: pa.StructArray, intake: Intake) -> Failures:
    times = (logs.field("time_unix_nano"), logs.field("observed_time_unix_nano"))
    return [("timestamp_in_future", in_future(time, intake)) for time in times]


FAILURES: dict[Signal, Callable[[pa.StructArray, Intake], Failures]] = {
    Signal.TRACES: _span_failures,
    Signal.LOGS: _log_failures,
}


def check_count(count: int, limit: int) -> None:
    """Raise `Refusal` for more records than a message may hold."""
    if count > limit:
        raise Refusal(
            Verdict.TOO_LARGE,
            "too_many_records",
            f"the message has {count} records, receiver.max_records is {limit}",
        )
