"""Lines of the table `logs`, by SQL that an injected function runs with the tenancy and limits of its caller.

All look-ups of streams and their sizes go through this module too, so that a table of streams can answer them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.logql.pipeline.entry import Entry
from neve.logql.storage.conditions import LINE, TIME, Conditions, write_conditions
from neve.logql.storage.line_groups import plan_groups
from neve.logql.storage.streams import LINE_COLUMNS, STREAM_COLUMNS, read_line, read_stream
from neve.promql.labels import Labels, make_labels

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.logql.engine import LogWindow
    from neve.logql.language.syntax import LogQuery, Stage
    from neve.logql.pipeline.entry import Hints
    from neve.logql.storage.line_groups import GroupPlan, LineGroup

__all__ = [
    "SELECT_LINES",
    "LogReader",
    "RunSql",
    "StreamSize",
    "TimeWindow",
    "list_sizes",
    "list_streams",
    "to_time_window",
]

TimeWindow = tuple[datetime | None, datetime | None]  # [since, until)
RunSql = Callable[[str, Sequence[Any], TimeWindow], "Iterator[pa.RecordBatch]"]

SELECT_LINES = f"{TIME} AS time_ns, {LINE} AS line, {STREAM_COLUMNS}, {LINE_COLUMNS}"
BYTES = f"strlen({LINE})"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MICROS = 253_402_300_799_000_000  # the end of the year 9999
_PAGE = 1000  # lines of the first page of a log query
_GROWTH = 4
_BATCH = 4096
_MAX_STREAMS = 20_000  # whose labels are remembered


def to_time_window(window: LogWindow) -> TimeWindow | None:
    """Return a window of nanoseconds as one of datetimes that holds it, or `None` if it is empty."""
    first, last = max(window.start_ns // 1000, 0), min(-(-window.end_ns // 1000), _MAX_MICROS)
    if first >= last:
        return None
    return _EPOCH + timedelta(microseconds=first), _EPOCH + timedelta(microseconds=last)


@dataclass(frozen=True, slots=True)
class GroupedLines:
    """Groups of lines with the stages that are left for them, and then lines for which all stages are left.

    The groups are read before the lines: a statement ends before the next one starts.
    """

    stages: tuple[Stage, ...]
    groups: Iterator[LineGroup]
    rest: Iterator[list[Entry]]


@dataclass
class LogReader:
    """Source of lines for one caller. `check` raises the reason to stop, for example a deadline."""

    run: RunSql
    check: Callable[[], None] = lambda: None
    _streams: dict[Any, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)

    def read(self, query: LogQuery, window: LogWindow, limit: int | None) -> Iterator[list[Entry]]:
        """Yield batches of lines that match a selector: all in any order, or with a limit the first ones in order."""
        bounds = to_time_window(window)
        if bounds is None:
            return
        if limit is None:
            conditions = write_conditions(query, window)
            sql = f"SELECT {SELECT_LINES} FROM logs "  # noqa: S608  # parameters
            yield from self._read(f"{sql}WHERE {conditions.sql}", conditions.parameters, bounds)
            return
        yield from self._read_pages(query, window, limit)

    def read_groups(self, query: LogQuery, hints: Hints, window: LogWindow) -> GroupedLines | None:
        """Return the lines of a metric query by their labels, or `None` if they must be read one by one."""
        plan, bounds = plan_groups(query, hints), to_time_window(window)
        if plan is None or bounds is None:
            return None
        return GroupedLines(plan.stages, self._read_groups(plan, window, bounds), self._read_rest(plan, window, bounds))

    def _read_groups(self, plan: GroupPlan, window: LogWindow, bounds: TimeWindow) -> Iterator[LineGroup]:
        piece = plan.write_groups(window)
        for batch in self.run(piece.text, piece.parameters, bounds):
            for row in batch.to_pylist():
                yield plan.read_group(row)
            self.check()

    def _read_rest(self, plan: GroupPlan, window: LogWindow, bounds: TimeWindow) -> Iterator[list[Entry]]:
        """Yield the lines that SQL can't parse as the pipeline does."""
        rest = plan.rest
        if rest is None:
            return
        conditions = write_conditions(plan.query, window)
        sql = f"SELECT * FROM (SELECT {SELECT_LINES} FROM logs WHERE {conditions.sql}) WHERE {rest.text}"  # noqa: S608  # parameters
        yield from self._read(sql, [*conditions.parameters, *rest.parameters], bounds)

    def _read_pages(self, query: LogQuery, window: LogWindow, limit: int) -> Iterator[list[Entry]]:
        """Yield pages in order of time, each longer than the one before, until the caller has enough.

        Lines of the last time of a full page are read again with the next one, because others may have this time too.
        """
        conditions = write_conditions(query, window)
        size = limit if conditions.is_exact else max(limit * _GROWTH, _PAGE)
        while True:
            page = self._read_page(conditions, window, size)
            if len(page) < size or conditions.is_exact:
                yield page
                return
            last = page[-1].time_ns
            kept = [one for one in page if one.time_ns != last]
            if kept:
                yield kept
                window = _continue(window, last)
                conditions = write_conditions(query, window)
            size *= _GROWTH

    def _read_page(self, conditions: Conditions, window: LogWindow, size: int) -> list[Entry]:
        bounds = to_time_window(window)
        if bounds is None:
            return []
        order = "ASC" if window.is_forward else "DESC"
        sql = (
            f"SELECT {SELECT_LINES} FROM logs "  # noqa: S608  # parameters
            f"WHERE {conditions.sql} ORDER BY time_ns {order}, record_id LIMIT {int(size)}"
        )
        return [one for batch in self._read(sql, conditions.parameters, bounds) for one in batch]

    def _read(self, sql: str, parameters: Sequence[Any], bounds: TimeWindow) -> Iterator[list[Entry]]:
        for batch in self.run(sql, parameters, bounds):
            for start in range(0, batch.num_rows, _BATCH):
                self.check()
                yield [self.make(row) for row in batch.slice(start, _BATCH).to_pylist()]

    def make(self, row: dict[str, Any]) -> Entry:
        """Return the line of a row."""
        stream, resource = self.find_stream(row)
        return Entry.make(row["time_ns"], row["line"], stream, read_line(row, resource))

    def find_stream(self, row: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the labels of a row's stream, and its other attributes. They are made once for each resource."""
        pairs = row["resource_attrs"]
        key = (row["service_name"], None if pairs is None else tuple(pairs))
        found = self._streams.get(key)
        if found is None:
            if len(self._streams) >= _MAX_STREAMS:
                self._streams.clear()
            found = self._streams[key] = read_stream(row["service_name"], pairs)
        return found


def _continue(window: LogWindow, last_ns: int) -> LogWindow:
    return replace(window, start_ns=last_ns) if window.is_forward else replace(window, end_ns=last_ns + 1)


@dataclass(frozen=True, slots=True)
class StreamSize:
    """Lines and bytes of a stream within a step, which begins at `start_ns`."""

    labels: Labels
    start_ns: int
    entries: int
    bytes: int


def list_streams(reader: LogReader, query: LogQuery, window: LogWindow) -> Iterator[Labels]:
    """Yield the labels of the streams of a query. Some come twice."""
    for row in _read(reader, query, window, f"SELECT DISTINCT {STREAM_COLUMNS}", ""):
        yield make_labels(reader.find_stream(row)[0])


def list_sizes(
    reader: LogReader, query: LogQuery, window: LogWindow, step_ns: int | None = None
) -> Iterator[StreamSize]:
    """Yield the sizes of streams, within each step if there is one. Line filters of the query count."""
    start = "0" if step_ns is None else f"({TIME} - {int(window.start_ns)}) // {int(step_ns)}"
    columns = f"SELECT {STREAM_COLUMNS}, {start} AS step, count(*) AS entries, sum({BYTES}) AS bytes"
    for row in _read(reader, query, window, columns, "GROUP BY ALL"):
        begin = window.start_ns + row["step"] * (step_ns or 0)
        labels = make_labels(reader.find_stream(row)[0])
        yield StreamSize(labels, begin, row["entries"], int(row["bytes"] or 0))


def _read(reader: LogReader, query: LogQuery, window: LogWindow, select: str, rest: str) -> Iterator[dict[str, Any]]:
    bounds = to_time_window(window)
    if bounds is None:
        return
    conditions = write_conditions(query, window)
    for batch in reader.run(f"{select} FROM logs WHERE {conditions.sql} {rest}", conditions.parameters, bounds):
        reader.check()
        yield from batch.to_pylist()
