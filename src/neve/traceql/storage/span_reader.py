"""Spans of the table `spans`, by SQL that an injected function runs with the tenancy and limits of its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.errors import LimitExceeded
from neve.traceql.evaluation.span_batch import SpanBatch
from neve.traceql.storage.columns import write_columns
from neve.traceql.storage.sql import FALSE, Sql, join_all

if TYPE_CHECKING:
    from neve.traceql.language.fields import Attribute
    from neve.traceql.storage.candidates import Candidates

__all__ = ["MARGIN_NS", "RunSql", "SpanReader", "TimeWindow", "Window", "match_ids"]

TimeWindow = tuple[datetime | None, datetime | None]  # [since, until)
RunSql = Callable[[str, Sequence[Any], TimeWindow], pa.RecordBatchReader]

MARGIN_NS = 3600 * 10**9  # around the time range: spans of the same traces that count there
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MICROS = 253_402_300_799_000_000  # the end of the year 9999
_FEW_TRACES = 64  # whose ids are constants, by which files are pruned


@dataclass(frozen=True, slots=True)
class Window:
    """Half-open time range in nanoseconds."""

    start_ns: int
    end_ns: int

    def widen(self) -> Window:
        """Return the range with the margin at both ends."""
        return Window(self.start_ns - MARGIN_NS, self.end_ns + MARGIN_NS)

    def to_times(self) -> TimeWindow:
        """Return a range of datetimes that holds this one."""
        first, last = (min(max(one, 0), _MAX_MICROS) for one in (self.start_ns // 1000, -(-self.end_ns // 1000)))
        return _EPOCH + timedelta(microseconds=first), _EPOCH + timedelta(microseconds=last)


@dataclass
class SpanReader:
    """Source of spans for one caller, with the spans and bytes that all statements of a query may still return.

    `check` raises the reason to stop, for example a deadline. `run_new` runs statements in which `spans` has only the
    files that trace summaries have not seen. It is `None` if the lake has no summaries.
    """

    run: RunSql
    check: Callable[[], None] = lambda: None
    spans_left: int = 5_000_000
    bytes_left: int = 1 << 30
    run_new: RunSql | None = None
    _new_spans: dict[Window, Window | None] = field(default_factory=dict)

    @property
    def has_summaries(self) -> bool:
        """Return whether the lake has trace summaries."""
        return self.run_new is not None

    def find_new_spans(self, window: Window) -> Window | None:
        """Return the times of spans that trace summaries have not seen, or `None` if there are none."""
        if window not in self._new_spans and self.run_new is not None:
            sql = "SELECT min(start_time_unix_nano) AS first, max(start_time_unix_nano) AS last FROM spans"
            row = self.run_new(sql, (), window.to_times()).read_all().to_pylist()[0]
            self._new_spans[window] = None if row["first"] is None else Window(row["first"], row["last"] + 1)
        return self._new_spans.get(window)

    def start(self, sql: Sql, window: Window | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Run a statement, and return the schema of its rows and the rows, which are charged while they are read."""
        self.check()
        reader = self.run(sql.text, sql.parameters, window.to_times() if window else (None, None))
        return reader.schema, self._charge(reader)

    def _charge(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            self.check()
            self.spans_left -= batch.num_rows
            self.bytes_left -= batch.nbytes
            if min(self.spans_left, self.bytes_left) < 0:
                raise LimitExceeded(
                    "the query would read too many spans into memory",
                    limit="memory",
                    hint="narrow the time range or the conditions",
                )
            yield batch

    def table(self, sql: Sql, window: Window | None) -> pa.Table:
        """Run a statement, and return all rows."""
        schema, batches = self.start(sql, window)
        return pa.Table.from_batches(batches, schema)

    def find_traces(
        self, candidates: Candidates, window: Window, limit: int, offset: int, *, is_whole: bool
    ) -> list[bytes]:
        """Return ids of traces that may match, the newest first."""
        sql = candidates.write_traces(window.start_ns, window.end_ns)
        text = f"{sql.text} ORDER BY newest DESC, trace_id LIMIT {int(limit)} OFFSET {int(offset)}"
        scanned = window.widen() if is_whole else window
        found: list[bytes] = self.table(Sql(text, sql.parameters), scanned).column(0).to_pylist()
        return found

    def read_traces(
        self,
        ids: Sequence[bytes],
        attributes: Sequence[Attribute],
        window: Window,
        condition: Sql | None = None,
        more: Sequence[str] = (),
    ) -> SpanBatch:
        """Return the spans of traces that fulfil a condition."""
        return SpanBatch.sort(self.read(attributes, window, join_all([match_ids(ids), condition]), more))

    def read(
        self, attributes: Sequence[Attribute], window: Window, condition: Sql | None, more: Sequence[str] = ()
    ) -> pa.Table:
        """Return spans that fulfil a condition."""
        sql, names = self.write(attributes, condition, more)
        return self.table(sql, window).rename_columns(names)

    def read_batches(
        self, attributes: Sequence[Attribute], window: Window, condition: Sql | None, more: Sequence[str] = ()
    ) -> Iterator[SpanBatch]:
        """Yield spans that fulfil a condition, in pieces that may cut traces."""
        sql, names = self.write(attributes, condition, more)
        _schema, batches = self.start(sql, window)
        for batch in batches:
            yield SpanBatch(pa.Table.from_batches([batch]).rename_columns(names))

    def write(
        self, attributes: Sequence[Attribute], condition: Sql | None, more: Sequence[str]
    ) -> tuple[Sql, list[str]]:
        """Return the statement of spans, and the names of its columns."""
        columns, names = write_columns(attributes, more)
        where = f" WHERE {condition.text}" if condition else ""
        given = condition.parameters if condition else ()
        return Sql(f"SELECT {columns.text} FROM spans{where}", (*columns.parameters, *given)), names  # noqa: S608  # parameters


def match_ids(ids: Sequence[bytes]) -> Sql:
    """Return the condition that a span is of one of these traces."""
    if len(ids) <= _FEW_TRACES:
        constants = ", ".join(f"unhex('{one.hex()}')" for one in ids)
        return Sql(f"trace_id IN ({constants})") if ids else FALSE
    return Sql("trace_id IN (SELECT unhex(unnest(string_split(?, ','))))", (",".join(one.hex() for one in ids),))
