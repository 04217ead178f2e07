"""Lines and bytes of streams.

Whole minutes come from the table `log_volumes`. The rest of the time range, and minutes with files that the table has
not seen, are counted from `logs`. Without the table, or with filters of lines, all of the range is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from neve.logql.storage.conditions import LINE, TIME, Conditions, write_conditions
from neve.logql.storage.log_source import to_time_window
from neve.logql.storage.streams import match_stream
from neve.promql.labels import Labels, make_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neve.logql.engine import LogWindow
    from neve.logql.language.syntax import LogQuery
    from neve.logql.storage.log_source import LogReader, RunSql, TimeWindow

__all__ = ["StreamSize", "list_sizes"]

MINUTE_NS = 60 * 10**9
MAX_PARTS = 6  # of a time range that are counted, each by a statement; of more, the whole range is counted
# ruff: noqa: S608  # parameters


@dataclass(frozen=True, slots=True)
class StreamSize:
    """Lines and bytes of a stream within a step, which begins at `start_ns`."""

    labels: Labels
    start_ns: int
    entries: int
    bytes: int


def list_sizes(
    reader: LogReader, query: LogQuery, window: LogWindow, step_ns: int | None = None
) -> Iterator[StreamSize]:
    """Yield the sizes of streams, within each step if there is one. Line filters of the query count."""
    if to_time_window(window) is None:
        return
    left: list[LogWindow] = [window]
    inner = _find_minutes(query, window, step_ns)
    if inner is not None and reader.run_sizes is not None:
        sizes, new = _read_stored(reader, reader.run_sizes, query, window, inner, step_ns)
        left = _find_rest(window, inner, new)
        if len(left) > MAX_PARTS:
            left = [window]
        else:
            yield from sizes
    if left:
        yield from _count(reader, query, window, left, step_ns)


def _find_minutes(query: LogQuery, window: LogWindow, step_ns: int | None) -> LogWindow | None:
    """Return the whole minutes of a window, or `None` if stored minutes can't answer the query."""
    first, last = -(-max(window.start_ns, 0) // MINUTE_NS) * MINUTE_NS, window.end_ns // MINUTE_NS * MINUTE_NS
    is_even = step_ns is None or (step_ns % MINUTE_NS == 0 and window.start_ns % MINUTE_NS == 0)
    return replace(window, start_ns=first, end_ns=last) if first < last and is_even and not query.stages else None


def _read_stored(
    reader: LogReader, run: RunSql, query: LogQuery, window: LogWindow, inner: LogWindow, step_ns: int | None
) -> tuple[list[StreamSize], list[int]]:
    """Return the stored sizes of whole minutes without new files, and the minutes with new files."""
    lines, known = write_conditions(query, inner), Conditions()
    for matcher in query.matchers:
        text, parameters = match_stream(matcher)
        known.add(text, *parameters)
    known.add("true")
    minute = f"epoch_ns(timestamp) // {MINUTE_NS} + one.minute"
    step = "0" if step_ns is None else f"(minute * {MINUTE_NS} - {int(window.start_ns)}) // {int(step_ns)}"
    sql = (
        f"WITH new AS (SELECT DISTINCT {TIME} // {MINUTE_NS} AS minute FROM logs WHERE {lines.sql}), stored AS ("
        f"SELECT stream_id, service_name, resource_attrs, {minute} AS minute, one.lines AS lines, one.bytes AS bytes "
        "FROM (SELECT timestamp, stream_id, service_name, resource_attrs, unnest(minutes) AS one FROM log_volumes "
        f"WHERE {known.sql})) "
        f"SELECT any_value(service_name) AS service_name, any_value(resource_attrs) AS resource_attrs, {step} AS step, "
        "CAST(sum(lines) AS BIGINT) AS entries, CAST(sum(bytes) AS BIGINT) AS bytes FROM stored "
        f"WHERE minute >= {inner.start_ns // MINUTE_NS} AND minute < {inner.end_ns // MINUTE_NS} "
        "AND minute NOT IN (SELECT minute FROM new) "
        "GROUP BY stream_id, CASE WHEN stream_id IS NULL THEN service_name END, "
        "CASE WHEN stream_id IS NULL THEN resource_attrs END, step "
        "UNION ALL SELECT NULL, NULL, minute, NULL, NULL FROM new"
    )
    found: list[StreamSize] = []
    new: list[int] = []
    for batch in run(sql, [*lines.parameters, *known.parameters], _to_hours(inner)):
        reader.check()
        for row in batch.to_pylist():
            if row["entries"] is None:
                new.append(row["step"])
            else:
                found.append(_read_size(reader, row, window, step_ns or 0))
    return found, new


def _to_hours(window: LogWindow) -> TimeWindow:
    """Return a time range from the start of its first hour: a row of the table has the time of its hour."""
    since, until = to_time_window(window) or (None, None)
    return since and since.replace(minute=0, second=0, microsecond=0), until


def _find_rest(window: LogWindow, inner: LogWindow, new: Iterable[int]) -> list[LogWindow]:
    """Return the parts of a window that stored minutes do not have."""
    parts = [(window.start_ns, inner.start_ns), (inner.end_ns, window.end_ns)]
    parts += [(minute * MINUTE_NS, (minute + 1) * MINUTE_NS) for minute in new]
    joined: list[LogWindow] = []
    for start, end in sorted(part for part in parts if part[0] < part[1]):
        if joined and joined[-1].end_ns == start:
            joined[-1] = replace(joined[-1], end_ns=end)
        else:
            joined.append(replace(window, start_ns=start, end_ns=end))
    return joined


def _count(
    reader: LogReader, query: LogQuery, window: LogWindow, parts: list[LogWindow], step_ns: int | None
) -> Iterator[StreamSize]:
    """Count the lines of some parts of a window.

    Lines are grouped by the ids of streams, which are cheaper to read and to compare than attributes. Lines of older
    releases have no id and are grouped by their attributes.
    """
    step = "0" if step_ns is None else f"({TIME} - {int(window.start_ns)}) // {int(step_ns)}"
    values = f"{step} AS step, count(*) AS entries, sum(strlen({LINE})) AS bytes"
    for part in parts:
        bounds = to_time_window(part)
        if bounds is None:
            continue
        conditions = write_conditions(query, part)
        where = f"FROM logs WHERE {conditions.sql}"
        sql = (
            f"SELECT any_value(service_name) AS service_name, any_value(resource_attrs) AS resource_attrs, {values} "
            f"{where} AND stream_id IS NOT NULL GROUP BY stream_id, step UNION ALL "
            f"SELECT service_name, resource_attrs, {values} {where} AND stream_id IS NULL "
            "GROUP BY service_name, resource_attrs, step"
        )
        for batch in reader.run(sql, [*conditions.parameters, *conditions.parameters], bounds):
            reader.check()
            for row in batch.to_pylist():
                yield _read_size(reader, row, window, step_ns or 0)


def _read_size(reader: LogReader, row: dict[str, Any], window: LogWindow, step_ns: int) -> StreamSize:
    labels = make_labels(reader.find_stream(row)[0])
    return StreamSize(labels, window.start_ns + row["step"] * step_ns, row["entries"], int(row["bytes"] or 0))
