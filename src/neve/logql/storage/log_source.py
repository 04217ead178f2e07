"""Lines of the table `logs`, by SQL that an injected function runs with the tenancy and limits of its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from neve.logql.pipeline.entry import Entry
from neve.logql.storage.conditions import LINE, TIME, write_conditions
from neve.logql.storage.filter_sql import write_filters
from neve.logql.storage.line_groups import plan_groups
from neve.logql.storage.streams import LINE_COLUMNS, STREAM_COLUMNS, read_line, read_stream

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.logql.engine import LogWindow
    from neve.logql.language.syntax import LogQuery, Stage
    from neve.logql.pipeline.entry import Hints
    from neve.logql.storage.line_groups import GroupPlan, LineGroup, Measure

__all__ = [
    "SELECT_LINES",
    "LogReader",
    "RunSql",
    "TimeWindow",
    "to_time_window",
]

TimeWindow = tuple[datetime | None, datetime | None]  # [since, until)
RunSql = Callable[[str, Sequence[Any], TimeWindow], "Iterator[pa.RecordBatch]"]

SELECT_LINES = f"{TIME} AS time_ns, {LINE} AS line, {STREAM_COLUMNS}, {LINE_COLUMNS}"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MICROS = 253_402_300_799_000_000  # the end of the year 9999
_PAGE = 1000  # lines of the first page of a log query
_GROWTH = 4
_BATCH = 4096
_MAX_STREAMS = 20_000  # whose labels are remembered
_SLICES = (16, 4)  # shares of a time range that are read first
_MIN_SLICED_NS = 300 * 10**9


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
    """Source of lines for one caller. `check` raises the reason to stop, for example a deadline.

    `run_new` runs statements over the table of streams, in which `logs` has only the files that the table has not seen.
    It is `None` if the lake has no such table. `run_sizes` does the same for the table of volumes.
    """

    run: RunSql
    check: Callable[[], None] = lambda: None
    run_new: RunSql | None = None
    run_sizes: RunSql | None = None
    _streams: dict[Any, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)

    def read(self, query: LogQuery, window: LogWindow, limit: int | None) -> Iterator[list[Entry]]:
        """Yield batches of lines that match a selector: all in any order, or with a limit the first ones in order."""
        bounds = to_time_window(window)
        if bounds is None:
            return
        if limit is None:
            sql, parameters = _select_lines(query, window)
            yield from self._read(sql, parameters, bounds)
            return
        for part in _slice_window(window):
            count = 0
            for page in self._read_pages(query, part, limit):
                count += len(page)
                yield page
            limit = max(limit - count, 1)

    def read_groups(self, query: LogQuery, hints: Hints, window: LogWindow, measure: Measure) -> GroupedLines | None:
        """Return the lines of a metric query by their labels, or `None` if they must be read one by one."""
        plan, bounds = plan_groups(query, hints, measure), to_time_window(window)
        if plan is None or bounds is None:
            return None
        return GroupedLines(plan.stages, self._read_groups(plan, window, bounds), self._read_rest(plan, window, bounds))

    def _read_groups(self, plan: GroupPlan, window: LogWindow, bounds: TimeWindow) -> Iterator[LineGroup]:
        piece = plan.write_groups(window)
        for batch in self.run(piece.text, piece.parameters, bounds):
            yield from plan.read_groups(batch)
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
        is_exact = write_conditions(query, window).is_exact
        size = limit if is_exact else max(limit * _GROWTH, _PAGE)
        while True:
            page = self._read_page(query, window, size)
            if len(page) < size or is_exact:
                yield page
                return
            last = page[-1].time_ns
            kept = [one for one in page if one.time_ns != last]
            if kept:
                yield kept
                window = _continue(window, last)
            size *= _GROWTH

    def _read_page(self, query: LogQuery, window: LogWindow, size: int) -> list[Entry]:
        bounds = to_time_window(window)
        if bounds is None:
            return []
        order = "ASC" if window.is_forward else "DESC"
        sql, parameters = _select_lines(query, window)
        sql = f"{sql} ORDER BY time_ns {order}, record_id LIMIT {int(size)}"
        return [one for batch in self._read(sql, parameters, bounds) for one in batch]

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


def _select_lines(query: LogQuery, window: LogWindow) -> tuple[str, list[Any]]:
    """Return the statement of lines that may pass the stages of a query, and its parameters."""
    conditions = write_conditions(query, window)
    sql = f"SELECT {SELECT_LINES}, record_id FROM logs WHERE {conditions.sql}"  # noqa: S608  # parameters
    filters = write_filters(query.stages)
    if filters is None:
        return sql, conditions.parameters
    return f"SELECT * FROM ({sql}) WHERE {filters.text}", [*conditions.parameters, *filters.parameters]  # noqa: S608


def _slice_window(window: LogWindow) -> Iterator[LogWindow]:
    """Yield parts of a time range, the one to read first being the shortest: it often has enough lines."""
    length = window.end_ns - window.start_ns
    if length < _MIN_SLICED_NS:
        yield window
        return
    edges = [0, *(length // share for share in _SLICES), length]
    for near, far in pairwise(edges):
        if window.is_forward:
            yield replace(window, start_ns=window.start_ns + near, end_ns=window.start_ns + far)
        else:
            yield replace(window, start_ns=window.end_ns - far, end_ns=window.end_ns - near)
