"""Whether bytes are an OTLP message, how many records it holds, and how many of them ingestion will refuse.

This is not decoding: it looks at the few fields that decide. It may let a record pass that decoding refuses (that one
is quarantined later, and only its sender was not told), but it refuses nothing that decoding accepts.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.signals import Signal
from neve.otlp.envelope import NAMES
from neve.otlp.parse import unsafe
from neve.otlp.wire import MESSAGES, POINTS, RECORDS, read
from neve.receive.bad_rows import without_bad_rows
from neve.receive.masks import bad_ids, in_future, no_text, no_time
from neve.receive.reduced import KINDS, reduced, reduced_class
from neve.receive.refusal import Refusal, Verdict, malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.otlp.batch import Intake
    from neve.receive.masks import Mask

# A record may be two bytes long on the wire and many in memory; above this, records are counted before they are parsed.
LARGE = 4 * 1024 * 1024

Failures = list[tuple[str, "Mask"]]


@dataclass
class Checked:
    """The records of a message: how many there are, and how many are refused, by reason."""

    records: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def add_malformed(self, count: int) -> None:
        """Count records that can't be parsed."""
        self.records += count
        if count:
            self.rejected["malformed_record"] += count

    def add(self, count: int, failures: Failures) -> None:
        """Count records, each that fails with its first reason."""
        self.records += count
        seen: Mask | None = None
        for reason, failed in failures:
            if not np.count_nonzero(failed):
                continue
            fresh = failed if seen is None else failed & ~seen
            seen = failed if seen is None else failed | seen
            self.rejected[reason] += int(np.count_nonzero(fresh))
        if seen is not None:
            self.rejected = +self.rejected  # a reason that always came second is none


def check(signal: Signal, message: bytes, intake: Intake, max_records: int) -> Checked:
    """Look at a message; raises `Refusal` when it is none, or holds too many records."""
    checked = Checked()
    records = _records(signal, _column(message), max_records, checked)
    for count, failures in _parts(signal, records, intake, max_records, checked):
        checked.add(count, failures)
    _bound(checked.records, max_records)
    return checked


def _records(signal: Signal, column: pa.BinaryArray, max_records: int, checked: Checked) -> pa.StructArray:
    """The records that can be parsed; those that can't are counted."""
    name = MESSAGES[signal]
    if column.nbytes <= LARGE and not unsafe(reduced_class(name), column):
        with suppress(ValueError):  # some of it is malformed: what, is found out below
            return _open(signal, read(reduced(name), column))
    try:
        if found := unsafe(reduced_class(name, parted=True), column):
            raise ValueError(found[0])
        wires = _open(signal, read(reduced(name, parted=True), column))
    except ValueError as error:
        raise malformed(f"the body is no OTLP message of {signal}: {error}") from None
    _bound(len(wires), max_records)
    batch, bad = without_bad_rows(RECORDS[signal], wires, parted=True)
    checked.add_malformed(bad)
    return batch.to_struct_array()


def _column(message: bytes) -> pa.BinaryArray:
    """A column of one message that is not copied."""
    offsets = np.array([0, len(message)], dtype=np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(message)])


def _open(signal: Signal, batch: pa.RecordBatch) -> pa.Array:
    """All records of one message. Its lists are never null and begin at their values' begin: those are all there is."""
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
        _bound(checked.records + len(points), max_records)
        if len(points):
            yield _points(kind, points, records.field("name").take(pc.list_parent_indices(lists)), intake, checked)


def _points(
    kind: str, points: pa.Array, names: pa.StringArray, intake: Intake, checked: Checked
) -> tuple[int, Failures]:
    if pa.types.is_binary(points.type):
        batch, bad = without_bad_rows(POINTS[kind], points)
        checked.add_malformed(bad)
        points = batch.to_struct_array()
    times = points.field("time_unix_nano")
    failures = [("missing_time", no_time(times)), ("timestamp_in_future", in_future(times, intake))]
    if len(names) == len(points):  # else it is not known here which of the points has which name
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


def _bound(count: int, limit: int) -> None:
    if count > limit:
        raise Refusal(
            Verdict.TOO_LARGE,
            "too_many_records",
            f"the message holds {count} records, more than receiver.max_records, which is {limit}",
        )
